// Package coordinator verifies lists (jobs) and single addresses. It takes a job through its states and joins the
// packages that do the work: ingest makes jobs of uploads, split finds the routes of their rows, dispatch sends the
// rows that need SMTP to a prober, resultfile joins the answers with the rows, callback delivers them, erase erases
// addresses from them, and retention deletes them.
//
// It knows jobs, their files, the fairness between them, and which answers cost something. It does not know SMTP or the
// API. Callers of Accept and OnFinish add their own parts to the commits, such as the charge.
//
// A job is a folder of files next to the state store:
//
//	upload-…       the list in frames of whole rows, and which rows are duplicates of an earlier one; it never changes
//	rows           the log of the rows of a running job, the only record of its progress
//	chunks         scratch: rows to be sent, in chunks of up to 131,072; made again at each start
//	answers-…      the answers of a finished job in the order of its rows; it never changes
//	result-…       the finished file; it never changes
//	callback       rows as they are sent to the callback's receiver; deleted when no attempt is due any more
//
// Package jobdir opens and removes them. Package jobfiles has the formats of upload, rows and answers, chunks that of
// chunks; results joins answers with rows. The job's record names its upload, answers and result. Other objects in the
// folder are left from a crash; they are removed before each step of the job, at each start, and each hour.
//
// Rows go to a wire.Prober: the one of this process, or a fleet: all nodes of a cluster. The coordinator does not know
// which.
//
// Invariants:
//  1. A row's answer counts once it is in the synced log. An answered row is never sent again, and its answer never
//     changes.
//  2. A restarted job sends the rows of its upload that have no answer in the log, or a damaged one. A job with missing
//     answers is not finished while it has time left.
//  3. The result file depends only on the upload and the set of answers, not on their order or on crashes. Files of a
//     finished job are used as they were written or not at all.
//  4. Memory is bounded for any size of job: windows of about a million rows, the open chunks of split, and the rows in
//     flight of dispatch.
//  5. A failing state store stops the coordinator. Any other failure concerns one job: its step is tried again with
//     reopened files, 100 ms to a minute later, for an hour; then the job fails. On a full disk it is tried for as long
//     as the disk is full. A damaged or missing file, or a panic, fails the job at once. Meanwhile the job keeps its
//     state, and its record says what the problem is.
//  6. Backup makes a consistent data folder: jobs restored from it continue as after a crash.
package coordinator
