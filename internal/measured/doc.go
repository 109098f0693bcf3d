// Package measured is what bench compares with its bare clients: this program's own conversation with mail servers, and
// its own resolver.
//
// Invariants:
//  1. The conversation does all that a prober's ready queue does between a connection and the verdicts of its
//     recipients, with the same packages, and nothing else.
//  2. Its verdicts are correct, and each recipient is judged or counted as lost.
//  3. The resolver is that of every command, with one server; it ends with the function that uses it.
package measured
