// Package prober runs one node. It schedules SMTP probes within each receiver's limits and reports one result per row.
//
// It owns queues, sessions and the order of probes; what follows from data and time alone is in packages below. It does not judge:
// engine.Next decides the next step, engine.Judge the verdict, and the provider table the meaning of a reply. It opens sockets
// and files only through its Config, and starts nothing before Run.
//
// Terms: a ready queue is one route asked from one egress source, with its waiting probes, sessions and budget. A domain queue
// is one domain at one host. A host queue is all domain queues of one host of one MX set. An address pool is the connections to
// one address of a provider: a session there serves one host queue after the other whose hosts resolve to that address
// (lookup.go), and a host queue without a session requests one there (shared_connections.go). An address limit is the budget of
// one address, shared by all routes of unknown providers that lead there. A probe in flight is one address being verified; all
// callers that ask for it meanwhile share it. A caller is one batch or single call with its rows.
//
// An egress source is suspect while several receivers in a row cannot be reached, and down while many cannot (package source). It is
// quarantined at a receiver that refused it, and everywhere once it is blocklisted (quarantine.go). A trial connection is the
// occasional connection that checks such a source. A suspect source makes a reachability trial at the host that it reached last,
// without a recipient (reach_trial.go). A blocklisted one makes a delisting trial, a decoy (a random recipient) where it was
// refused (delisting_trial.go), or else sends a row. The suspicion of a host is none, low or high: how likely it is that it has
// stopped refusing (unconfirmed.go).
//
// Invariants:
//  1. Budgets are never exceeded (package budget). A recipient is sent only after it was reserved as if refused, in the budgets of
//     the queue and the address; a connection is dialled only after it was reserved in both, and counts until the peer has closed.
//  2. The persisted use of an hourly budget is never less than the real one: refusals are used only from leases that are on
//     disk. A budget that cannot be read counts as used up.
//  3. The target is asked before the decoy; the decoy only if a target was accepted or greylisted, once per domain and host,
//     in a session with that host or its address. A decoy's clear reply is kept for a week. If a receiver may accept every
//     recipient once it was asked too much, an acceptance counts only if it refused a recipient after it (unconfirmed.go).
//  4. A probe has exactly one owner: its ready queue, a session, or the goroutine that moves it. It ends once.
//  5. Each row of a batch gets exactly one Result. A row that is not finished when the hold ends, or when nearly all others
//     are, is Returned; its probe goes on or is dropped.
//  6. Jobs leave to single calls a fifth of a queue's connections and the last transaction of each; single calls go first. Of
//     the budgets per minute and hour they leave a fifth for an hour after each single call to this node, else a hundredth. While
//     work remains, a ready queue uses 97 % of what jobs may use: a budget is counted in sixtieths of its span. The first
//     single call after a quiet hour may find a small budget used up.
//     If short and long jobs want the same queue, short ones get three of four recipients and connections; neither starves.
//     Room at a shared address goes to waiting queues: single calls, then both kinds of jobs by the same share.
//     A long backlog (wire.Batch.LongBacklog) uses its hours evenly, in eighths (budget.Pacing), also at shared addresses, so that a
//     short job gets room at once, at three quarters of the budget's rate. A short job may use half of what is left to
//     single calls; if none come, the backlog leaves it as much for an hour. No row of a short job waits for a long job: not
//     for a decoy, nor unconfirmed, nor at an address that is closed to long jobs only.
//  7. No lock is held across I/O. Lock order: inFlight, queue, address limit, then one of those that docs/architecture.md lists.
//  8. Bounds: Config.MaxRows probes, Config.MaxQueues queues, Config.MaxSessions sessions, Config.MaxRetries retries of single
//     calls; maxResolvers lookups at one time per ready queue. As many sessions connect or ask at one time as the processor
//     keeps up with (package admission), not counting those that wait for the reply of a high-latency host (gated_conn.go).
//  9. An isolated node (SetIsolated) opens no connection and begins no transaction, not even for a retry of its own; when it
//     goes on, it has dropped what waited at narrow routes for returned rows (isolated.go). A session at a narrow route whose
//     caller or lease is gone is reset after timing.CloseTimeout, whatever it waits for (handover.go): then another source may
//     ask there. A source that cannot connect anywhere makes trial connections only, to the host it reached last if possible
//     (reach_trial.go), never where the suppression list or the table excludes it. A failure that may be our own outage delays
//     rows and does not decide them: a host that refuses, or is silent while the source is not seen to work, is tried again
//     after a second, and doubtful rows are deferred by the schedule, at most twice.
//  10. A source that three routes refuse as blocklisted is quarantined everywhere, also over a restart, except for one trial
//     connection an hour, which needs no row (delisting_trial.go). A wide provider is asked from sources that it has not
//     quarantined. No row is settled as blocked while another source may ask it.
//  11. If half of an hour's refusals came from a receiver that may stop refusing, or may be in flight to it, an acceptance
//     counts only with a later refusal (unconfirmed.go), also that of a decoy (suspect_decoy.go). Only what was shown without
//     suspicion, or confirmed so, is cached. A host that turns into a tarpit is paused, except for the decoys of probes just
//     accepted: its connection asks them last, and not at all if a reply asked for a pause (tarpit.go).
//  12. The hourly budget of a narrow route is the cluster's: refusals that other sources used (wire.UsedByOthers) count here.
//  13. No host is contacted that the current table or the suppression list excludes. A reload removes its rows from the queues
//     at once, decoys included (applyLimits). A new suppression applies when a row comes next, in jobs within a minute.
//  14. A connection is reused for another host only if a lookup of the last minute found that host at its address. A host queue
//     waits for shared connections for sharedWait after one of them last changed its host queue; a session leaves its host queue
//     after maxHostTurn transactions if others request it. While hosts are being looked up, a session at such an address closes
//     only after its linger time, even if other host queues have no connection. A single call waits for no other host queue:
//     it gets an idle session or a new connection, if needed from those that jobs leave to single calls.
//  15. When Run has returned, every session has closed and no goroutine of this package is left.
package prober
