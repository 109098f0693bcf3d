// Package dbfiles is about the files of a Pebble database: its logs have room ahead of their end, and what records were
// before can be removed from all of its files.
//
// Invariants:
//  1. A log that is no longer used is never used again, so no log has content behind its own end but zeros.
//  2. The keys of a table file begin with one byte.
//  3. After RemoveOldValues has returned nil, no file of the database has a value that a record of the given tables had
//     before.
package dbfiles
