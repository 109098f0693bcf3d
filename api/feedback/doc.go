// Package feedback takes what customers report of messages to verified addresses, matches it with their own verdicts,
// and shows how often verdicts were right.
//
// Invariants:
//
//  1. A request is taken whole or refused whole: a report that cannot be read refuses all, and is named.
//  2. Only verdicts that were given to the account are matched: of single calls, and of the results of its jobs.
//  3. Matching takes at most a twentieth of the time.
//  4. No bounce text and no address is kept.
package feedback
