// Package app connects the packages into what runs: a node (the coordinator and the prober of one process), a service,
// a coordinator of other nodes, and a prober alone. It alone, with the commands, imports both prober and coordinator.
//
// Invariants:
//  1. Constructors open nothing and Open starts nothing: Run runs all parts, and ends when one of them fails or the
//     context does.
//  2. At the end requests end first, then callbacks, then the node: the coordinator, the prober, the resolver; a
//     service ends within 25 seconds, and so does a prober.
//  3. What Open has opened Close closes, also after an Open that failed.
//  4. A reload takes everything or nothing: while one file is wrong, all settings stay as they were.
//  5. Neither the log nor /debug/config holds a secret; the first admin's password is in a file of its owner, written
//     before the account.
//  6. A listener on loopback answers to names of this machine only.
package app
