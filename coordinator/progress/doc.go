// Package progress counts the answered rows of a running job: for its display, and so that each row is answered once.
// At a start it is filled from the results log of the job (Replay). A charge is counted from that log, not from here.
//
// Invariants:
//  1. Each row is counted once: Add is true for one caller.
//  2. A row that the log of an earlier start answers counts as answered, but neither for the rate nor in Totals.
//  3. The rate is that of the last 16 seconds, or since the last sample before them: probed rows and calls of
//     SampleRate leave one, at most one a second. The ETA is at the average since the work started.
//  4. A count of duplicates that fails harms nothing: the last count stays.
package progress
