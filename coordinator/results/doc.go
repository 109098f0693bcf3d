// Package results joins the answers of a job with the rows of its upload, and writes them as CSV or JSON, compressed or
// not.
//
// It reads open files of the package jobfiles. Which files a job has, when they are made and who may read them is the
// coordinator's.
//
// Invariants:
//  1. A result depends only on the upload, the set of answers, the job's record and the Filter, not on the order of the
//     answers.
//  2. Each row of the upload is written once, in its place, with the cells that it had; a duplicate has the answer of
//     its first row.
//  3. Memory is bounded for any size of job: the records of one window of rows, and a few pages that are rendered in
//     parallel. Only searches of running jobs keep some bytes for each row, of ten million rows at most and those of
//     the searches under way, until the job ends.
//  4. Answers that differ from what the job's record says of them, or do not fit its rows, are jobfiles.ErrDamaged
//     before anything is written.
//  5. A row is charged at most once, with its first row's answer, and UNKNOWN is free.
package results
