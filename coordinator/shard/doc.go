// Package shard says which identity owns a key: rendezvous hashing over egress identities, unweighted. It is pure.
//
// It knows names and keys, but not nodes' health, gossip or time: the caller says which identities are in the set. A
// missing node stays in the set as long as it keeps its share.
//
// A narrow route has one key, so exactly one source probes it and the receiver's limit holds for the whole cluster. A
// wide provider has a key for each domain, and at the consumer domains that its row of the table names, one for each
// address, so that all identities share it. A provider with tenants has a key for each domain; if its row limits the
// number of sources, only the first few of the provider's own ranking may own one.
//
// Invariants:
//  1. The owner depends only on the key and the set of names: not on their order, the process or the machine.
//  2. When an identity leaves, only its keys move; when one joins, keys move only to it.
//  3. The three kinds of key are hashed with different seeds: a domain with the name of a route has its own owner.
//  4. Owners must be the same after a restart with a new version: the hashes change only with a major version.
//  5. What a set remembers changes no owner: the owners of its 262,144 places (a megabyte, from 64 identities on), and
//     the first identities of up to 256 rankings.
package shard
