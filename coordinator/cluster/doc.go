// Package cluster tracks which nodes there are and which of them keep a share of the work: memberlist in, immutable
// View out.
//
// Gossip makes a node known, so that the coordinator can dial it. The coordinator's stream to it makes it usable. While
// the stream is live, gossip that calls the node dead is ignored. The package knows names, addresses and identities as
// text. It does not know what a stream is made of, what a key hashes to or which identity is quarantined; it opens
// connections only through the memberlist.Transport in its Config.
//
// A node is alive while its stream is live; suspect for a minute after it was lost; draining when it says so; then
// gone. Alive and suspect nodes keep their share of the keys: work waits for a suspect node, because another source
// would have to give it back a minute later. A draining node loses its share at once.
//
// Invariants:
//  1. A View is immutable and whole: Shares are the identities of just those of its Nodes that keep a share; readers
//     load one pointer and take no lock.
//  2. If two nodes claim one identity, the one that had it first keeps it; the other has no share, and its Problem says
//     why.
//  3. Callbacks of memberlist copy their arguments and return; they never call memberlist.
//  4. Metadata is at most 512 octets, which New checks: memberlist would panic.
//  5. Seeds are joined again every 30 seconds, because gossip may have given up a node that was only isolated.
//  6. Bounds: MaxNodes nodes; more are logged and not in the View; a gone node is forgotten after an hour.
//  7. New starts nothing, and when Run has returned, the transport is closed.
//
// In detail:
//
//   - Goroutines of memberlist end within seconds of the transport's end.
//
// Keys rotate without a pause, in three rounds over all machines: add the new key at the end of the key file; move it
// to the front, so that it encrypts; remove the old one. SetKeys applies each round to a running node.
package cluster
