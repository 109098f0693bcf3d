// Package certs makes and reads the certificates and gossip keys by which the machines of a cluster authenticate each
// other: the commands under probity certs, and what a member loads at its start.
//
// Invariants:
//  1. No existing certificate or key is replaced; certificates of one command are written all or not at all.
//  2. A certificate is of one authority, has the name of its machine, and allows one role: that of a node or that of a
//     coordinator.
//  3. The key file is replaced atomically, and holds 1 to 8 keys, of which the first encrypts and all decrypt.
//  4. Only the owner can read the files.
package certs
