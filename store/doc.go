// Package store is what a coordinator remembers: one Pebble database, "state", whose commits are synced, and a journal of the
// singles of the last moment.
//
// It knows keys, records and commits. It refuses to know why: no HTTP, no SMTP, no policy. The large files of a job
// (uploads, rows, results) live next to the database and belong to the coordinator; the store holds what is true of them.
//
// Invariants:
//  1. What Commit returned nil for survives a crash, whole; what it returned an error for may or may not have happened,
//     so every verb can be done again without harm. What SettleSingle returned nil for survives the process; should the power
//     fail in the milliseconds until the ledger's next sync, the charges of that moment are lost, the last first, in the
//     customer's favour: the ledger adds up all the same.
//  2. The parts of one commit become visible together or not at all, and no two commits of one account run at one time:
//     a part may read, decide and write.
//  3. keys.go is the whole schema. A store written by a newer program is refused, with words, and not touched.
//  4. No address in clear is ever a key, and chunk records never hold one.
//  5. An account's balance is the sum of its ledger, which only grows; it is never negative after any entry; what is
//     reserved is the sum of the open reservations of jobs. Ledger ids derive from their cause, so doing it again changes
//     nothing.
//  6. A reservation of a single verification is a hold in memory: no other request can spend it, the ledger does not know of it,
//     and it ends with its process, when nothing was charged. Its end enters reservation and charge (or release) at once.
//     A job's reservation lives until the job is settled. What was charged and what was answered under an
//     Idempotency-Key are one commit.
//  7. After RevokeKey, DisableUser, EndSession or Suppress has returned, no call lets the key, account or session in, or
//     misses the suppression. Keys and session tokens are stored as SHA-256, passwords as argon2id, client addresses as HMAC.
//  8. A sliding window never lets more through than its limit. Hours, days and weeks survive a restart; a minute does not.
//  9. What an admin does is recorded in the commit of the action: who, what, when and from where. So is a
//     download of results, once an hour for each job, key, session or link, and form. Nothing takes a record out, but SweepDownloads those of old downloads.
//
// Settlements of singles share commits, syncs and, by account, keys of the ledger: a timer merges the journal into the ledger
// milliseconds after the first, and so does every look at a ledger. Nothing else here runs by itself. The process that runs
// the store calls WriteLastUsed each minute, and SweepWindows, SweepAnswers, SweepSessions and SweepErasures each hour. A
// disk that fails under a commit is the end of the process: the database panics, and a server above must not go on after
// that panic. A backup is Checkpoint; to restore it is to Open it.
package store
