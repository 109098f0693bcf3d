// Package rowsearch bounds the dashboard's searches through the results of jobs.
//
// Invariants:
//  1. A search takes about Time and returns what it found until then, and where it goes on.
//  2. At most maxSearches searches run at one time, and one of each account.
package rowsearch
