// Package compare serves POST /v1/compare: another verifier's results next to those of a job, by receiver, with our
// evidence.
//
// Invariants:
//  1. Nothing of a request is kept.
//  2. One comparison is made at a time, since it reads all results of the job. Accounts take turns.
//  3. A file that cannot be read is refused with its line and what to do.
package compare
