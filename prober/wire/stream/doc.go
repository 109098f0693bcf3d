// Package stream carries the values of package wire over any connection: a Server makes a Prober reachable, a Client is
// a Prober at another node. Constructors start nothing; when Run has returned, no goroutine of this package is left.
//
// It does not open sockets, read keys or judge. Connections come from a listener and a dial function, trust from
// transport credentials (ServerTLS and ClientTLS make those of a cluster), verdicts from the other side.
//
// Terms: the coordinator attaches to a node by a stream. A hello is the first message of each side. The lease is a
// node's permission to probe: it comes with an answered ping and lasts for ten seconds from when the ping was sent. A
// window is how many rows of a class may be under way at a node.
//
// Invariants:
//  1. A node probes for one coordinator at a time, and for the latest term of it.
//  2. No row is probed at two nodes at once: a node ends what it has when its lease ends, and a Client gives its node
//     up only after that.
//  3. A stream that breaks takes its batches with it: the node forgets them, and their Verify fails with the rows that
//     have no result.
//  4. Verify emits each row of its batch exactly once or fails; it ends at most ten seconds after its hold or its
//     context, whatever the node does.
//  5. Peers that have no protocol in common, or differ in the node's name, refuse each other; both sides log the
//     reason.
//  6. What waits at either end is bounded, and a peer that exceeds a bound, or does not read, loses the stream.
//  7. A node works by one provider table at a time, the coordinator's, and no result is judged by two.
//
// In detail:
//
//   - Another coordinator is refused, with a reason, until the first has been silent for a minute. Of one coordinator a
//     later term replaces an earlier one, and what the earlier had under way is dropped.
//   - A node starts no batch and no single without a lease, which ends ten seconds after it sent the last ping that was
//     answered. A Client gives its node up fifteen seconds after it last heard of it, which is later, whichever
//     direction fails: the ping that was answered was heard first.
//   - Nothing is sent again on a new stream. Rows that are verified again find what was probed in the prober's cache,
//     or in flight there. Rows that were not returned in time when Verify ends are Returned.
//   - Rows under way at a node (ServerConfig.MaxRows) bound the results that wait to be sent; windows bound the
//     rows of a class; a message is at most 24 MiB long; windows of 4,096 classes are remembered, the others have the
//     default. For a node that does not read, one answer waits; results bring rows that their batch waits for, in
//     messages of their size.
//   - When the table changes, batches are returned first; then the node takes the new table, says so, and takes batches
//     again. A batch and a single name their table, and a node that works by another one sends them back. A table is at
//     most eight layers of 1 MiB, must have the hash that it is sent under, and must be understood by the node's
//     engine; a node that cannot take it says why and takes no work.
package stream
