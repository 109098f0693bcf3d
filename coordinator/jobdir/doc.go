// Package jobdir has the folders of jobs: it opens the files that a job's record names, makes them of those that older versions left, and
// removes what the record does not name.
//
// Invariants:
//  1. The files of an older version are removed once those that replace them are durable and, if they are objects, named
//     by the record; a migration that was cut off is repeated, and then has the same result.
//  2. An object is removed only when the record in the store does not name it, and its job's lock is held: by the runner of the job for a
//     step, by an erasure, or by another writer of the job's files.
//  3. OpenUpload returns an upload with as many rows and duplicates as the job has; an erasure that replaces it meanwhile does not disturb.
package jobdir
