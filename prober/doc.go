// Package prober is the patience of one node: it asks mail servers about addresses as fast as politeness allows, and no faster.
//
// It knows budgets, queues, sessions, egress sources and the order in which things are asked. It refuses to judge: what to do
// next is engine.Next's word, what it proves is engine.Judge's, and what a reply means is the table's. It opens no socket and
// no file but through its Config, and starts nothing before Run.
//
// The words: a ready queue is one route as asked from one egress source; it holds a queue, a pool of sessions and a budget. A domain queue is
// one domain at one host. A host queue is the places of one host of one MX set. A pool of shared connections is one address of a provider: a session there
// goes on from one host queue to another whose hosts are found at that address (lookup.go), and a group without a session calls there (shared_connections.go). A
// destination is one address of a host, whose budget is shared by all routes of no known provider that lead there. A flight is one
// address being verified; all callers that ask for it meanwhile share it. A caller is one caller with its rows.
//
// Of a source, which is an egress source at work: it is suspect while several receivers in a row cannot be reached, and down while
// many cannot (health.go); it is quarantined at a receiver that refused it, and everywhere once blocklists name it, when it is blocklisted
// (quarantine.go). A trial connection is the one connection in a while that tries whether it is well. The trial connection of a suspect source is a reachability trial at the
// host that it reached last, without a word about a recipient (reach_trial.go); that of a blocklisted one is a delisting trial, a question about a
// decoy where it was refused (delisting_trial.go), or else a row. The suspicion of a host is none, low or high: how likely it has stopped refusing (unconfirmed.go).
//
// Invariants:
//  1. Budgets are laws (budget.go). A recipient is sent only after it was reserved as if refused, in the queue's budget and in the
//     address limit's; a connection is dialled only after it was reserved in both, and counts until the peer has closed.
//  2. What is persisted of an hour's budget is never less than what was used of it: refusals are spent from leases that are on
//     disk first. An unreadable budget is an empty one.
//  3. The target is asked before the decoy; the decoy only where a target was accepted or greylisted, once per domain and host,
//     in a session with that host, or with its address. A decoy's clear answer is kept for a week. Where a receiver may accept
//     every recipient once it was asked too much, an acceptance counts only if it refused a recipient after it (unconfirmed.go).
//  4. A probe belongs to exactly one holder: its queue's queue, a session, or the goroutine that moves it. It ends once.
//  5. Each row of a batch gets exactly one Result. What is not finished at the hold, or when nearly all else is, is Later, and its
//     probe goes on or is dropped.
//  6. Bulk leaves to singles a fifth of a queue's connections and the last transaction of each; singles are taken first. Of the
//     budgets by the minute and the hour it leaves them a fifth while they come, which is for an hour after any was asked of this
//     node, else a hundredth, for the first. While work remains, a ready queue uses 97 % of what is open to bulk: the rest is that
//     a budget is counted in sixtieths of its span. The first single after a quiet hour may find a small budget used up.
//     Where short jobs and long ones want the same queue, the short have three of four recipients and connections; neither starves;
//     so is room at an address that queues share offered to those that wait, to singles first, and passed on by those that may not have it.
//     A long backlog (wire.Batch.Steady) spends its hours evenly, in eighths (pacing.go), at a ready queue as at the addresses that
//     queues share, so that what a short job needs of an hour comes free at once, at three quarters of the rate of the budget. Of
//     what is left to singles, a short job may have half; where none come, the backlog leaves it as much for an hour. No row of
//     a short job waits for the turn of a long one: not for a decoy, nor unconfirmed, nor at an address that is shut to long jobs only.
//  7. No lock is held across I/O. The order of locks is flight, queue, address limit or admission gate; a caller's lock is taken last and alone.
//  8. Bounds: Config.MaxRows probes, Config.MaxQueues queues, Config.MaxSessions sessions, Config.MaxRetries retries of singles;
//     maxResolvers look-ups of hosts at one time in a ready queue; of sessions, as many connect or ask at one time as the processor keeps up with (admission.go);
//     those that wait for a far host's reply are not among them (round_trip.go).
//  9. A node that is told that it is isolated (SetIsolated) opens no connection and begins no transaction until it is told otherwise,
//     not even for a retry of its own; then it has forgotten what waited at narrow routes for rows that were returned (isolated.go).
//     A session at a narrow route that its rows' caller, or the lease, has left is reset after timing.HangUp, whatever it waits for
//     (handover.go): another source may ask there then.
//     A source that cannot connect anywhere sends one trial connection in a while and nothing else: to the host that
//     it has reached last, if it may (reach_trial.go): never where the suppress list or the table forbid. What may be our own outage costs jobs time, not verdicts: a host that refuses, or
//     is silent while the source is not seen to work, is tried again after a second, and rows whose failure is doubtful are deferred by the schedule, twice at the most.
//  10. A source that three routes refuse as blocklisted is quarantined everywhere, over a restart too, but for one trial connection an hour, which needs
//     no row (delisting_trial.go). A wide provider is asked from sources it still wants. No row is settled as blocked while another may ask it.
//  11. Where half of an hour's refusals were heard of a receiver that may stop refusing, or may be under way to it, an acceptance
//     counts only with a later refusal (unconfirmed.go), that of a decoy too (suspect_decoy.go). Only what was shown without suspicion, or was
//     confirmed so, is kept. A host that turns into a tarpit is left alone, but for the decoys of probes just accepted: they are the
//     last that its connection asks, and go unasked where a reply wanted a pause (tarpit.go).
//  12. The hour of a narrow route is the cluster's: what other sources have used of it (wire.Elsewhere), this one has not.
//  13. What the table in force or the suppress list forbids is not asked. Rows that wait in a ready queue at a reload leave it at once, and
//     no host is connected to for their decoys (applyLimits). A new wish holds when a row comes next, a minute later at most in jobs.
//  14. A session goes on only to hosts that DNS finds at its address, by a look-up of the last minute. A group waits for others' sessions for
//     sharedWait after any of them went on from one host queue to another; a session leaves its group after maxHostTurn transactions while others
//     call. While hosts are being looked up, a session at such an address ends with its linger, also where other host queues have no
//     connection. A single waits for no other host queue: it has an idle session, or a connection of its own, if need be one of those that jobs
//     leave to singles.
//  15. When Run has returned, every session has closed and no goroutine of this package is left.
package prober
