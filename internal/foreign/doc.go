// Package foreign reads CSV files that other programs wrote, such as the results of another verifier, and compares
// those with ours.
//
// Invariants:
//
//  1. Columns are found by name, in any order; one that is not there is an error that names those that are.
//  2. Words that no mapping knows are an error, never a guess.
//  3. Addresses are joined in their folded form, whatever their order and spelling; of equal ones the last counts.
//  4. Memory is bounded by the distinct addresses of our file.
package foreign
