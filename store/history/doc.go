// Package history keeps what an account did: its requests, its verifications, and how many of both it made on each day.
// It is for people who look something up; nothing is decided or charged by it.
//
// Invariants:
//  1. Add never waits for the disk. Rows that find no room in memory or on the disk are dropped and counted.
//  2. A read shows every row that an Add before it has kept, unless the disk is full.
//  3. An account has at most Rows rows of a kind and a sixteenth more, none older than MaxAge once a sweep has passed,
//     and days for MaxDays.
//  4. Damage costs the history and nothing else: the database is deleted, a new one begins, and the log and a metric
//     say so.
//  5. After Erase has returned nil, no row is about the address.
//
// A process that is killed loses at most the rows of the last second, a power failure those of some seconds.
package history
