// Package jobdir opens the files that the record of a job names, and removes those that it does not name.
//
// Invariants:
//  1. An object is removed only when the record in the store does not name it, and its job's lock is held: by the
//     runner of the job for a step, by an erasure, or by another writer of the job's files.
//  2. OpenUpload returns an upload with as many rows and duplicates as the job has; an erasure that replaces it
//     meanwhile does not disturb.
package jobdir
