// Package store stores the state of a coordinator: one Pebble database, "state", whose commits are synced.
//
// A Store is made of parts: DB (commits), Accounts (with their API keys and limits), Logins (passwords, codes,
// sessions), Billing (credits), Jobs (with their callbacks) and Privacy (erasures, suppressions). It embeds them, so
// that callers need not know the part; the answers, settings and the audit log are its own.
//
// It knows keys, records and commits, but no HTTP, no SMTP and no policy. The large files of a job (uploads, rows,
// results) are next to the database and belong to the coordinator.
//
// Invariants:
//  1. A commit for which Commit returned nil survives a crash, whole, and its parts become visible together or not at
//     all.
//  2. The commits of an account are serial, so that a part of one may read, decide and write.
//  3. keys.go is the whole schema, and no key contains an address in clear.
//  4. An account's balance is the sum of its ledger, which only grows, and is never negative after any entry.
//  5. Credits that are reserved for a single call or a job cannot be spent by any other request.
//  6. After RevokeKey, DisableUser, EndSession or Suppress has returned, no call accepts the key, account or session,
//     or misses the suppression.
//  7. A sliding window never allows more than its limit.
//
// In detail:
//
//   - After an error of Commit it may or may not have happened, so every method can be repeated safely.
//   - A single call is answered after its settlement is synced: it is charged, power failure or not. Commits that wait
//     share a sync.
//   - A store written by a newer program is refused with an error and not changed.
//   - Reserved is the sum of the open reservations of jobs. Ledger ids derive from their cause, so a repeated entry
//     changes nothing.
//   - A reservation of a single call is in memory only: it is not in the ledger, and is over without a charge when the
//     process ends, before the answer, or the power fails. Its settlement enters reservation and charge (or release) at
//     once. A job's reservation lives until the job is settled. Charge and answer under an Idempotency-Key are one
//     commit.
//   - Keys and session tokens are stored as SHA-256, passwords as argon2id, client addresses as HMAC.
//   - Windows of hours, days and weeks survive a restart; minutes do not.
//   - A lock-out of sign-ins is durable before the attempt that caused it is judged. Its key is made of HMACs, and it
//     is written whether or not there is an account.
//   - An admin's action is recorded in its own commit: who, what, when and from where. So is a download of results,
//     once an hour for each job, key, session or link, and form. Only SweepDownloads deletes audit events, those of old
//     downloads.
//
// Nothing here runs by itself. The process that runs the store calls WriteLastUsed each minute, and SweepWindows,
// SweepAnswers, SweepSessions, SweepLockouts and SweepErasures each hour. If the disk fails during a commit, the store
// panics with Lost and the process must end. Checkpoint makes a backup; to restore it, Open it.
package store
