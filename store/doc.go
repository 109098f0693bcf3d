// Package store is what a coordinator remembers: one Pebble database, "state", whose every commit is synced.
//
// It knows keys, records and commits. It refuses to know why: no HTTP, no SMTP, no policy. The large files of a job
// (spool, chunks, results) live beside the database and belong to the coordinator; the store holds what is true of them.
//
// Invariants:
//  1. What Commit returned nil for survives a crash, whole; what it returned an error for may or may not have happened,
//     so every verb can be done again without harm.
//  2. The parts of one commit become visible together or not at all, and no two commits of one account run at one time:
//     a part may read, decide and write.
//  3. keys.go is the whole schema. A store written by a newer program is refused, with words, and not touched.
//  4. No address in clear is ever a key, and chunk records never hold one.
package store
