// Package opendb opens a Pebble database, or says why it cannot, and checks the tables of one that is closed.
//
// Pebble's own Open writes the content of the logs into tables and waits for that; on a full disk it retries without
// end and returns no error.
//
// Invariants:
//  1. Open returns an error as soon as the disk is found to be full; the process must end then: Pebble's goroutines go
//     on.
//  2. A panic of Pebble's Open becomes an error that wraps ErrDisk.
//  3. One compaction runs at a time, none before Open has succeeded, and nothing polls for another.
package opendb
