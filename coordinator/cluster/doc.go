// Package cluster says which nodes there are and which of them keep a share of the work: memberlist in, immutable View out.
//
// Gossip discovers, a live stream decides. Gossip alone makes a node known, so that the coordinator can dial it; what the
// coordinator's stream to it says then makes it usable. Gossip that calls a node dead is not believed while its stream lives.
// The package knows names, addresses and identities as text. It does not know what a stream is made of, what a key hashes
// to and which identity is quarantined; it opens connections only through the memberlist.Transport that it was given.
//
// A node is alive while its stream is; suspect without it, until it has been away for a minute; draining when it says so; gone
// after. An alive and a suspect node keep their share of the keys: work waits for a suspect node that is not usable rather
// than move to a source that will give it back in a minute. A node that drains gives its share away at once.
//
// Invariants:
//  1. A View is immutable and whole: Shares are the identities of just those of its Nodes that keep a share. Readers load
//     one pointer and take no lock.
//  2. Of two nodes that claim one identity, that which had it first keeps it; the other has no share, and says why.
//  3. What memberlist calls back copies what it is given and returns; it never calls memberlist.
//  4. Metadata is at most 512 octets, which New checks: memberlist would panic.
//  5. Seeds are joined again every 30 seconds, for gossip may have declared left a node that was only isolated.
//  6. Bounds: MaxNodes nodes; more are not in the View, with a word in the log. A node that is gone is forgotten after an hour.
//  7. New starts nothing; when Run has returned, the transport is closed, and what memberlist still waits for ends within seconds.
//
// Keys rotate without a pause, in three rounds over all machines: add the new key at the end of the key file; move it to the
// front, so that it encrypts; take the old one out. SetKeys applies each round to a running node.
package cluster
