// Package progress shows people how far a job is, and what came of it.
//
// Invariants:
//  1. It writes to standard error only; a display that cannot be drawn stops no job.
//  2. A terminal gets a bar; a pipe gets whole lines, one every lineInterval at most.
//  3. The summary has the counts of the job as they are stored, the largest first.
package progress
