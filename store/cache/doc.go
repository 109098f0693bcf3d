// Package cache stores, for one node, the results of probes: verdicts by address, decoy facts by domain and MX host,
// and the budgets that must survive a restart. It is one Pebble database.
//
// It knows keys, layouts and lifetimes. It does not judge: a verdict is stored and returned as engine made it; the
// caller checks whether it still fits the row (same provider, same flags, young enough).
//
// Invariants:
//  1. No address and no domain is written in clear.
//  2. Only a server's reply about the mailbox is stored (accepted, full or refused), so that a failed probe cannot
//     overwrite a good answer.
//  3. Nothing that has outlived its time is returned: accepted answers live 31 days, refusals and full mailboxes 3,
//     unconfirmed acceptances 3, decoy facts 7.
//  4. Budgets are written with a sync: without them a receiver's limits could be exceeded.
//  5. Get and Fact return from memory what they would find in the database: a write removes the key from memory before
//     Put, PutFact or Delete returns.
//  6. The look-up of a verdict skips the database only for a key that is not in it: every key is in the key filter
//     before it is written, and a filter is used only once it has all keys.
//  7. A damaged database is set aside and a new one started, and for 70 minutes every budget that the new one does not
//     have is an error, never unused.
//
// In detail:
//
//   - The key of a verdict is 8 bytes of keyed hash of the domain, then 16 bytes of HMAC-SHA-256 of the folded address,
//     so that addresses of a domain are adjacent. The secret is made at the first opening and stored in the database.
//   - Verdicts and facts are written without a sync: if the last second is lost, addresses are probed again. A value
//     that does not decode is a miss.
//   - The sweep deletes what is too old. A new database has a complete key filter at once, another after a sweep.
//   - A database written by a newer program is refused with an error and not changed.
//   - A later report about the damaged database does not affect the new one. Damage in the last 32 KiB of the log looks
//     like a power cut and is not detected.
package cache
