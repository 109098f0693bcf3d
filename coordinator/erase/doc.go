// Package erase erases addresses everywhere: in the files of jobs, which then never probe them, in caches, in single
// calls that the history of accounts has or that are answered later, and in answers kept for an Idempotency-Key.
//
// Invariants:
//  1. An erasure is in the state store before anything is deleted, and the result of each step before the next one
//     begins.
//  2. Open erasures are tried again at a start, each minute, and when an absent node that one waits for is back; each
//     step is idempotent: repeated after any failure, it has the same result.
//  3. An erasure is done when all jobs, kept answers, single calls and caches were reached; a cache that is never
//     reached counts as done once its verdict must have expired.
//  4. After Jobs.Erase has returned nil, no file of a job contains the address and no unfinished job will probe it.
//
// In detail:
//
//   - After a crash, a canceled call, a failing disk or while a node is absent an erasure stays open; it is never lost
//     half done.
//   - Row count, order, other cells, verdicts, counts and charges stay; a row without an answer gets none.
package erase
