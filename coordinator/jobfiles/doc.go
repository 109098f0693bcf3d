// Package jobfiles defines the file formats of one job, and what each guarantees after a crash or a flipped bit.
//
// Invariants:
//  1. No byte is used before its checksum was verified; damage is an error that wraps ErrDamaged or, in the rows log of
//     a running job, a group that is counted and skipped: its rows are not answered.
//  2. The names of a row's answer are in the same group of the log, so that a copy of the log, made in whatever order,
//     has both or neither.
//  3. An object, such as an upload, exists whole and durable or not at all; its name is unique, and it never changes.
//  4. A log ends where a crash cut it; bytes after that point, which were never synced, are not read.
package jobfiles
