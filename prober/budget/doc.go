// Package budget limits what one egress source sends to one receiver, and keeps the hourly part over a restart. Budget,
// FairShare and Conn are values without a lock: their owner's lock guards them. Persisted is lent that lock for the
// moments in which Log takes a snapshot or grants a lease.
//
// How budgets are divided: jobs leave to single calls a fifth of a queue's connections and the last transaction of
// each, and of the budgets per minute and hour a fifth for an hour after each single call, else a hundredth. Short jobs
// get three of four recipients and connections that short and long jobs both want. A long backlog uses its hours evenly
// (Pacing).
//
// Invariants:
//  1. Open connections stay within their limit, and so do connections begun and recipients sent in any minute, and
//     refused recipients in any hour, whatever the receiver answers: each recipient is reserved as a refusal before it
//     is sent.
//  2. The persisted use of an hour is never less than the real one: refusals are used only from a lease that is on
//     disk, and a restart counts a lease as used at its end.
//  3. A budget that cannot be read counts as used up; budgets are stored under names that never change.
//  4. Jobs leave a fifth to single calls while these are expected, else a hundredth of the rates, and always the last
//     of several transactions of a connection.
//  5. While both want it, short jobs get three of four; neither kind starves.
//  6. If a write fails, no lease is granted and the requests stay queued; no lock is held across I/O.
//
// In detail:
//
//   - Pacing bounds long jobs only, and what they use evenly over the hour takes no longer than without it.
package budget
