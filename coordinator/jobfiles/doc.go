// Package jobfiles is the formats of the files of one job, and what each promises after a crash or a flipped bit.
//
// Invariants:
//  1. No byte is used before its checksum was right. What is not right is an error that wraps ErrDamaged, or, in the rows log of a
//     running job, a group that is counted and passed over: its rows are not answered.
//  2. What a row's answer refers to is in the same group of the log: a group is whole or it is not there, in whatever order a copy of
//     the file was made.
//  3. An object, such as an upload, is there whole and durable or not at all; it has a name of its own, and it never changes.
//  4. A log ends where a crash cut it. What was written behind that, and never synced, is not read.
package jobfiles
