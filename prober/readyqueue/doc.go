// Package readyqueue asks the receivers: for each route and egress source it has the waiting probes, the connections
// that serve them, and the budgets that they share. It does not judge and knows no caller: finished probes go to
// Env.Finish.
//
// Terms: a ready queue is one route asked from one egress source. An MX host is one host of one MX set: the probes that
// wait for it (package hostqueue) and the sessions that serve it. A session is one connection and the goroutine that
// works on it. An address pool is the sessions at one address of a provider: each serves one host after the other that
// resolves to that address, and a host without a session requests one there (shared_connections.go). An address limit
// is the budget of one address, shared by all routes of unknown providers that lead there.
//
// A suspect source makes a reachability trial at the host that it reached last, without a recipient (SendReachTrial). A
// quarantined one makes a trial connection from time to time, and goes on when a recipient was answered
// (quarantines.go).
//
// The steps of a session are those of session.run. It closes when it is used up, when others need its connection, or
// when it waited in vain: it may send one more control, and waits for the server's close, two seconds at most while a
// single call needs its place. One that was reset (Queue.Reset) sends nothing more. Its goroutine alone uses the
// connection and what it sends there; what the queue knows of it is session.observed.
//
// Locks: Queue has one mutex. Queue.lock gives the *locked that it guards, with all MX hosts, pools and probes in
// it. A method of locked, or of what is in it, and a method of a session that takes a *locked, runs with the queue
// locked; other methods of sessions run without.
//
// Invariants:
//  1. A recipient is sent only after it was reserved as if refused, in the budgets of the queue and of the address; a
//     connection is dialled only after it was reserved in both, and counts until the peer has closed.
//  2. Room, the choice of recipients and their reservation are one step under the queue's mutex, as is all that a reply
//     changes.
//  3. A probe has one owner: its queue, a session, or the goroutine that moves it; it ends once, with Env.Finish.
//  4. No lock is held across I/O, nor while Env.Finish, DropUnwanted, Blocklisted and Delisted run; the queue's mutex
//     comes before that of an address limit.
//  5. A connection is reused for another host only if a lookup of the last minute found that host at its address, and a
//     single call waits for no other host.
//  6. No host is contacted that the current provider table excludes: ApplyTable empties the queue at once, decoys
//     included.
//  7. A failure that may be our own outage delays rows and decides none (connect.go).
package readyqueue
