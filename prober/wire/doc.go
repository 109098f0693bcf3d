// Package wire is what a coordinator and a prober say to each other: batches of rows out, results back, single questions
// between. It knows their shapes and how to carry them over any connection, and nothing of how either side works: a Server
// makes a Prober reachable, a Client is a Prober that is elsewhere.
//
// It refuses to open sockets, to read keys and to judge. Connections come from a listener and a dial function, trust from
// transport credentials (ServerTLS and ClientTLS make those of a cluster), verdicts from the other side.
//
// The words: the coordinator attaches to a node; the stream is what holds them together. Hello is what each says first.
// The lease is a node's permission to probe: it comes with an answered ping and lasts for ten seconds from when the ping
// was sent. A window is how many rows of a class may be under way at a node. A session is the life of one Client.
//
// Invariants:
//  1. A node probes for one coordinator. Another is refused, with words, until the first has been silent for a minute. Of one
//     coordinator a later term displaces an earlier one, and what the earlier had under way is dropped.
//  2. A node starts no batch and no single without a lease, and ends what it has when the lease does, ten seconds after it sent
//     the last ping that was answered. A Client gives its node up fifteen seconds after it last heard of it, which is later,
//     whichever direction fails: the ping that was answered was heard first. So no row is probed at two nodes at once.
//  3. A stream that breaks and is made again within that time loses nothing: results are numbered in their batch, kept until
//     they are acknowledged, and sent again from the first that the coordinator has not seen. A batch that the node does not
//     know is sent again, less the rows that were answered.
//  4. Verify emits each row of its batch exactly once or fails; it ends at most Grace after its hold or its context, whatever
//     the node does. What has not come home by then is Later.
//  5. Peers of another protocol, another provider table or under another name refuse each other. Both sides log the words.
//  6. Bounds: rows under way at a node (ServerConfig.MaxRows) bound the results that wait for acknowledgement; windows bound
//     the rows of a class; a message is at most MaxMessage long; windows of 4,096 classes are remembered, the others have the default.
//  7. What a node tells of budgets is at most MaxSpent routes with every status; it is a bound on what was used, never less, but
//     for what was used since the status before.
//  8. Constructors start nothing; when Run has returned, no goroutine of this package is left.
package wire
