// Package providerview shows the provider table: its facts and rules as JSON or as tables for people, a route with its
// provider, and the names that a misspelt one may mean.
//
// Invariants:
//  1. A view has every provider and rule of the table, in the order in which rules are tried, with source and date;
//     lists in it are never null in JSON.
//  2. A view of one provider or one rule has the rest of the table's facts unchanged.
//  3. A name that the table does not have is wrong usage; at most five names are suggested for it.
package providerview
