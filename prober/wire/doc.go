// Package wire has what a coordinator and a prober say to each other, as plain values: batches of rows out, results back, single calls,
// and what people see of a node. Package frames has the messages that carry them, package stream both ends of a connection.
//
// Invariants:
//  1. It knows nothing of connections, messages or how either side works.
//  2. A Prober emits each row of a batch exactly once or fails; the prober reads a batch and does not change it.
//  3. A budget report has at most MaxBudgetUses routes; it is a bound on what was used, never less, except for what was used since the
//     last status.
//  4. No probing decision depends on what Views show, and there is no address in it.
//
// Protocols. A side speaks Protocol and the one before, and says both in its hello; the greatest that both speak is used. So members
// can be updated one after another, in any order, as long as each update is to the next protocol. The changes of each number, and what a
// peer of the number before does without:
//
//	2  The verdict's core has the bits of its score. Peers of protocol 1 are refused.
//	3  Ranges in the hello: field 1 is the least that is spoken, which a peer of protocol 2 takes for the only one. TableFrame and
//	   TableTakenFrame, and the table's hash in batches and singles. MovedFrame, which a peer that does not know it
//	   ignores. A peer of protocol 2 cannot be sent a table: both must have the same one by themselves, or they
//	   refuse each other. When a new coordinator's table changes, an old node's batches are returned, and it is
//	   attached to again when it has that table; an old coordinator does not do that, and a node that gets a new file
//	   of its own ends the stream, so that it is attached to again.
//
// A change that only adds to what people see needs no number: a peer that does not know the counters and findings of a status sends none.
package wire
