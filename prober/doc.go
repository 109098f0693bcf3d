// Package prober runs one node. It takes batches and single calls, keeps one probe for each address in flight however
// many callers ask for it, gives probes to the ready queue of their route and source, and reports one result per row.
//
// It does not judge: engine.Next decides the next step, engine.Judge the verdict, and the provider table the meaning of
// a reply. It opens sockets and files only through its Config, and starts nothing before Run. What asks the receivers
// is package readyqueue, with packages of its own for its parts: hostqueue, hosthealth and rtt follow from data and
// time; budget, source and admission have locks or disk of their own.
//
// Terms: a caller is one batch or single call with its rows. A probe in flight is one address with all rows that wait
// for it. An egress source is suspect while several receivers in a row cannot be reached, down while many cannot, and
// quarantined at a receiver that refused it, or everywhere once it is blocklisted (package source). A trial connection
// is the occasional connection that checks such a source: a blocklisted one sends a decoy where it was refused
// (trial.go), or else a row.
//
// Bounds: Config.MaxRows probes, Config.MaxQueues queues, Config.MaxSessions sessions, Config.MaxRetries retries of
// single calls.
//
// Invariants:
//  1. Each row of a batch gets exactly one Result; a row that is not finished when the hold ends, or when nearly all
//     others are, is Returned.
//  2. The use of an hourly budget on disk is never less than the real one, also over a crash; a budget that cannot be
//     read counts as used up.
//  3. The hourly budget of a narrow route is the cluster's: refusals that other sources used (wire.UsedByOthers) count
//     here.
//  4. An isolated node (SetIsolated) opens no connection and begins no transaction; a session at a route
//     that is not wide, and whose caller or lease is gone, is reset after timing.CloseTimeout, whatever it waits for
//     (route_moved.go).
//  5. No row is settled as blocked while another source may ask it.
//  6. No lock is held across I/O; the lock order is in docs/architecture.md.
//  7. When Run has returned, every session has closed and no goroutine of this package is left.
package prober
