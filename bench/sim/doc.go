// Package sim is the simulated mail internet: an authoritative DNS server, a few
// hundred SMTP hosts that behave like the major providers and the usual mail
// software, the truth about every address behind them, and a referee that
// counts every excess over a receiver's limits.
//
// # Parts
//
//   - World: the population: domains, MX hosts, addresses, and which mailboxes
//     exist. All of it is computed from one seed; nothing is stored per address,
//     so a list of five million rows needs no more memory than one of ten.
//   - Persona: how one kind of receiver behaves, what it tolerates, and what an
//     honest verifier may conclude about each kind of mailbox behind it.
//   - Truth: the outcomes that an honest verifier may give for any address.
//   - Referee: connections, recipients and refusals by source address and
//     persona, compared with the persona's limits; and those of each narrow
//     route, and of each tenant of a gateway or hoster, over all sources: only
//     one source may use it at a time.
//   - List, truth and score files, and the override file that scales a prober's
//     budgets as the internet's speed-up scales the personas' limits.
//
// # Limits
//
// It imports nothing of the system that it judges, so that both cannot share an
// error. It listens only where its Network allows it: on loopback, on private
// addresses or in memory. Its ordinary domains end in .example (RFC 2606 section
// 3), so that a list used on the real internet by mistake reaches only the major
// providers, whose real names it needs.
//
// # Invariants
//
//  1. The same Config gives the same world, and the same (seed, rows) the same
//     list, byte for byte.
//  2. Mailbox is a pure function of the seed and the folded address. Any other
//     local part is Absent; one that ends in exactly five digits may exist with
//     a probability below one in twenty thousand.
//  3. Truth never depends on earlier probes: a throttled probe may end as
//     UNKNOWN, but no throttling looks like a missing mailbox unless the real
//     provider's does.
//  4. All addresses of hosts are in Config.Network or [::1]. Nothing listens on
//     the unroutable ones, and a correct client never dials them.
//  5. With Speedup N every waiting time of a persona is divided by N and every
//     per-minute and per-hour limit multiplied by N; 0 means no waits, no limits.
package sim
