// Package dispatch sends the chunks of running jobs to a prober, decides which is sent next, and records the results.
//
// A chunk waits in the queue of its class, or until it is due. The scheduler sends it when the limits of rows in flight
// and the budgets of its class allow more. Answers and deferrals go into the log of the job; rows without an answer
// become chunks again.
//
// Invariants:
//  1. Job by job, class by class: neither a long job nor a slow route delays others. Of a job's classes, the one that
//     will take longest goes first, but each fourth pick is the one that has waited longest.
//  2. A class of a job gets a further chunk only while fewer of its rows are unanswered than its budgets allow in about
//     two minutes, and any class a chunk only while fewer than 65,536 rows of all jobs are, or 128 for each source, up
//     to 524,288; a chunk may exceed both. At most 1,024 chunks are in flight, or one for each source, up to 4,096. A
//     chunk has at most 4,096 rows, or 16 for each source, up to 131,072.
//  3. A job with at most a quarter of the longest job's rows is short; short jobs get most of the turns. A class with a
//     day or more of rows is a long backlog, and its budgets are used evenly.
//  4. A row counts as answered once. Results of another chunk or term, of unknown rows, and second results of a row are
//     ignored.
//  5. A chunk exists until each of its rows is answered or in another chunk. A job is finished when it is split and has
//     no chunk.
//  6. Waits use the monotonic clock, and none is longer than the longest retry or an hour.
//  7. The scheduler's mutex guards the queues of every job. It is never held over I/O.
package dispatch
