// Package details shows what a verdict rests on, to callers who ask for details: as the member of an answer, as columns
// of a result file, and as it is kept with the answers of a job.
//
// Invariants:
//
//  1. The member and the columns are the same facts, whether the answer was made for a single call, a batch or a job.
//  2. No address is in what is shown or kept; texts were redacted when the verdict was made.
//  3. What was kept is shown later by the rules of the table that is in force then; the verdict does not change.
package details
