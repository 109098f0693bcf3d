// Package sim runs the simulated mail internet: a name server, a few hundred SMTP hosts that behave like the major
// providers and the usual mail software, the truth about every address behind them, and a referee that counts every
// excess over a receiver's limits.
//
// # Parts
//
//   - persona: how one kind of receiver behaves, what it tolerates, and what an honest verifier may conclude about its
//     mailboxes.
//   - world: domains, hosts, mailboxes, lists and the truth, all computed from one seed.
//   - smtpd, dnsd: the servers.
//   - referee: what each source did at each receiver, compared with its limits.
//   - score: files of the truth, and the comparison of a result with them.
//   - sim itself: starts and ends them, serves the referee's report, and writes the override file that scales a
//     prober's budgets as the speed-up scales the personas' limits.
//
// # Invariants
//
//  1. It imports nothing of the system that it judges, so that both cannot share an error.
//  2. It listens only where its Network allows it: on loopback, on private addresses or in memory.
//  3. All addresses of hosts are in the Config's Network or [::1]; nothing listens on the unroutable ones, and a
//     correct client never dials them.
//  4. Start listens at once, or returns an error and leaves nothing behind; Wait returns after everything that it
//     started has ended.
package sim
