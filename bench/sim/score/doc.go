// Package score writes the truth of a list next to its rows, and compares a verifier's result with it.
//
// # Invariants
//
//  1. WriteTruth copies each row byte for byte.
//  2. Rows are joined by their order; memory does not grow with rows.
//  3. An error means that a file could not be read; what is wrong with a readable result is in the Scores.
//  4. A record is at most 8 MiB.
package score
