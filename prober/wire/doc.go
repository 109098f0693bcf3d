// Package wire has what a coordinator and a prober say to each other, as plain values: batches of rows out, results
// back, single calls, and what people see of a node. Package frames has the messages that carry them, package stream
// both ends of a connection.
//
// Invariants:
//  1. It knows nothing of connections, messages or how either side works.
//  2. A Prober emits each row of a batch exactly once or fails; the prober reads a batch and does not change it.
//  3. A budget report has at most MaxBudgetUses routes; it is a bound on what was used, never less, except for what was
//     used since the last status.
//  4. No probing decision depends on what Views show, and there is no address in it.
//
// Protocols. A side speaks Protocol and the one before, and says both in its hello; the greatest that both speak is
// used. So members can be updated one after another, in any order, as long as each update is to the next protocol. The
// first release speaks protocol 1.
//
// A change that only adds to what people see needs no number: a peer that does not know the counters and findings of a
// status sends none.
package wire
