// Command peers holds Probity against other Go libraries that verify e-mail addresses by asking the mail server: the same
// pretend internet, the same list, the same machine, one after another in one run.
//
// It is a module of its own, so that what it compares with never enters Probity's go.mod.
//
// # What it knows
//
//   - Peer: a library, and how its own documentation says that it is used for one address.
//   - Contest: one latency, at which Probity and every peer do the whole list.
//   - Count: what a contestant took, measured from outside: time from the start of its process to its end, CPU time of the
//     process as the system accounts for it, connections and recipients as the pretend internet's referee saw them.
//
// # What makes it fair
//
//  1. Every contestant is a process of its own and meets a fresh pretend internet of the same seed, without limits.
//  2. Probity does the whole list. A peer takes each address by itself, so that its pace does not depend on how many there are:
//     it does the first part of the list, whose rows are in no order, and its time ends when 99 of 100 are done.
//  3. A peer is used as documented, from many goroutines over one shared verifier. How many is tried out on a part of the
//     list first; the peer runs with the number that suits it best. Nobody asks twice for what the list has twice, if the
//     library would not: duplicates are taken out for the peers.
//  4. Peers hard-code port 25 and ask the system's resolver. Nothing is patched and no proxy stands between: everything runs
//     in a network namespace of its own, with the pretend hosts on port 25 and resolv.conf naming the pretend name server,
//     so they work as they do on a real machine. From within the namespace nothing else can be reached.
//  5. Latency is a mail host's time for each batch of replies. Connecting takes none, and the name server is as fast as a
//     resolver next door whose cache is warm: both spare those who open a connection, or ask the DNS, for each address.
//  6. Probity's side is the command that a user types, with all that it does: it reads the CSV, writes the result, and keeps
//     a store on disk. The peers only get addresses and throw their verdicts away.
package main
