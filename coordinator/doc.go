// Package coordinator takes lists and single addresses, and sees to it that each is answered: it finds the route of every
// domain, sends the rows that must be asked to a prober, and puts the answers back next to the rows.
//
// It knows jobs, files and fairness between them. It refuses to know SMTP, HTTP and money: what a reply means is the
// engine's, what a callback or a credit is belongs to those who pass parts of a commit to Accept and OnFinish.
//
// A job is a folder of files next to the state store:
//
//	upload-…       the list in frames of whole rows, and which rows have the address of an earlier one; it never changes
//	rows           the log of the rows of a running job, the only truth of its progress
//	chunks         scratch: rows to be asked, in chunks of up to 4,096; made anew at each start
//	answers-…      the answers of a finished job in the order of its rows; it never changes
//	result-…       the finished file; it never changes
//	callback       rows as they are sent to the callback's receiver; dropped when no attempt is due any more
//
// The formats of upload, rows and answers are those of package jobfiles. The job's record names its upload, answers and result; other
// objects in the folder are what a crash left, and go before each step of the job, at each start, and each hour.
//
// A wire.Prober asks: one in this process, or a Fleet, which is the nodes of a cluster as one. The coordinator does not
// know which.
//
// Invariants:
//  1. Accept returns a job only after its files and its record are durable; a refused or broken upload leaves nothing.
//  2. A row's answer counts once it is in the synced log. What is there is never asked again and never changes.
//  3. A job that starts again asks for the rows of its upload that the log has no answer of. Rows whose answers were damaged are among
//     them; a job is not finished while it lacks answers and has time left.
//  4. The result file is a function of the upload and the set of answers: the order in which answers came, and crashes on the way, do
//     not show in it. Files of a finished job are used as they were written or not at all.
//  5. Memory is the same for any size of job: windows of about a million rows, 64 MB of open chunks, 131,072 rows under way.
//     Jobs take turns; one with a quarter of the longest one's rows, or less, is short, and has the greater part of them.
//     A class with rows for a day or more of its budgets says so, and its budgets are spent evenly (scheduler.longBacklog).
//     Of a job's classes, the one whose rows will take longest goes first; of each, no more is under way than its budgets take
//     in about two minutes, so that no slow one has the room of others. Six jobs are split at one time, not counting those that
//     only wait for the name servers of few rows.
//  6. A failing state store stops the coordinator. Any other failure is one job's: its step is tried again on files that are opened
//     anew, 100 ms to a minute later, for an hour, then the job fails; on a full disk for as long as it is full; a damaged or
//     missing file fails it at once, and so does a panic. Its state stays meanwhile, and its record says why it does not get on.
//     Nothing expires in the hour after a start or a step of the wall clock, or in the day after where that is behind what was noted
//     last or more than a day ahead: see clock_trust.go. What waits does so by the monotonic clock.
//  7. After Erase has returned nil, no file of a job contains the address and no unfinished job will ask for it. Rows, order,
//     verdicts, counts and charges stay as they were; a row of the address that has no answer gets none.
//  8. What Backup sets aside is a data folder of one moment: jobs restored from it go on as after a crash.
//  9. While no domain can be looked up, one that fails is asked for again, three times at most, before its rows are told (unresolved.go).
package coordinator
