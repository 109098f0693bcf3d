// Package cache remembers, for one node, what mail servers have said: verdicts by address, decoy facts by domain and
// MX host, and the budgets that must survive a restart. It is one Pebble database.
//
// It knows keys, layouts and lifetimes. It refuses to judge: a verdict goes in and comes out as engine made it; whether
// it still fits the row at hand (same provider, same flags, young enough) is for the reader to see.
//
// Invariants:
//  1. No address and no domain is written in clear. A result's key is 8 bytes of keyed hash of the domain, then 16 bytes
//     of HMAC-SHA-256 of the folded address: what is asked together lies together. The key is made at the first
//     opening and kept in the database.
//  2. Only what a server said about the mailbox is kept: an accepted, full or condemned target. Blocks, timeouts,
//     deferrals and failures of ours are never stored, so a failed probe cannot overwrite a good answer.
//  3. Accepted answers live 31 days, refusals and full mailboxes 3, unconfirmed acceptances 3, decoy facts 7. Nothing
//     older is ever returned; the sweep deletes it.
//  4. Results are written without waiting for the disk: losing the last second of them costs a second probe, no lie.
//     Budgets are written with a sync, because losing them would cost politeness.
//  5. What Get and Fact give from memory is what they would have found in the database: who writes a key empties its place in
//     memory before Put, PutFact or Delete returns.
//  6. The look-up of a verdict is spared the database only for a key that is not in it: every key is in the key filter before it is written,
//     and a key filter is not asked before it has them all. That of an empty database has them at once, that of another after a sweep.
//  7. A database written by a newer program is refused, with words, and not touched. A value that does not decode is
//     a miss.
//  8. A damaged database is set aside, once, and a new one begun; for 70 minutes every budget that this one does not have is an
//     error, never untouched. What a database reports after that condemns no other. Damage in the last 32 KiB of the log looks like a power cut and is not found.
//  9. While those press whom it gives way to, tables are written with rests; no rest begins while a writer waits.
package cache
