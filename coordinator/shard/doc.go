// Package shard says which identity owns a key: rendezvous hashing over egress identities, unweighted. It is pure.
//
// It knows names and keys. It refuses to know nodes' health, gossip and time: its caller says which identities are in the set, and a
// node that is missing for a while stays in the set for as long as it keeps its share.
//
// A narrow route has one key, its own, so exactly one source address ever asks there and the receiver's limit holds for the
// whole cluster. A wide provider has a key for each domain, and at the consumer domains that its row of the table names, one
// for each address, so that all identities share it. A provider with tenants has a key for each domain; where its row limits how
// many sources ask, only the first few of a ranking that is the provider's own may own one.
//
// Invariants:
//  1. The owner depends on the key and on the set of names alone: not on their order, the process or the machine.
//  2. When an identity leaves, only its keys move; when one comes, keys move to it alone.
//  3. The three kinds of key never meet: a domain that is named like a route has an owner of its own.
//  4. Hashes are part of the protocol between a coordinator and its own past: they do not change without a major version.
package shard
