// Command peers compares Probity with other Go libraries that verify e-mail addresses over SMTP: on the same simulated
// internet, the same list and the same machine, one after another in one run.
//
// It is a module of its own, so that the other libraries never enter Probity's go.mod.
//
// # Terms
//
//   - Peer: a library, and its documented use for one address.
//   - Contest: one latency, at which Probity and every peer verify the list.
//   - Count: the cost of a contestant, measured from outside: time from the start of its process to its end, CPU time
//     of the process, connections and recipients as the simulated internet's referee saw them.
//
// # What makes it fair
//
//  1. Every contestant is a process of its own on a fresh simulated internet of the same seed, without limits.
//  2. Probity verifies the whole list. A peer takes each address by itself, so its rate does not depend on their
//     number: it gets the first part of the list, whose rows are in no order, and its time ends when 99 of 100 are
//     done.
//  3. A peer is used as documented, from many goroutines over one shared verifier. The number that suits it best is
//     found on a part of the list first. Duplicates are removed for the peers.
//  4. Peers hard-code port 25 and use the system's resolver. Nothing is patched or proxied: everything runs in a
//     network namespace of its own, with the simulated hosts on port 25 and the simulated name server in resolv.conf.
//     From within the namespace nothing else can be reached.
//  5. Latency is a mail host's time for each batch of replies. Connecting takes none, and the name server is as fast as
//     a local resolver with a warm cache: both favour libraries that open a connection or query the DNS for each
//     address.
//  6. Probity runs as the command that a user types, with all its work: it reads the CSV, writes the result, and keeps
//     a store on disk. The peers only get addresses, and their verdicts are dropped.
package main
