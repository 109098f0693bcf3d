// Package opendb opens a Pebble database, or says why it cannot.
//
// Pebble's own Open writes what the logs hold into tables and waits for that; on a full disk it tries again without end and
// without a word.
//
// Invariants:
//  1. Open returns an error as soon as the disk turns out to be full. The process must end then: what Pebble has begun goes on.
//  2. A panic of Open is an error that wraps ErrDisk.
package opendb
