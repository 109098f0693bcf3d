// Package sim is the simulated mail internet: an authoritative DNS server, a few
// hundred SMTP hosts that behave as the major providers and the usual mail
// software do, the truth about every address behind them, and a referee that
// notes every excess of a client.
//
// # What it knows
//
//   - World: the population. Domains, MX hosts, addresses, and which mailboxes
//     exist. All of it follows from one seed by rule; there is no memory per
//     address, so a list of five million rows costs no more than one of ten.
//   - Persona: how one kind of receiver behaves, what it tolerates, and what an
//     honest verifier may conclude about each kind of mailbox behind it.
//   - Truth: the outcomes that an honest verifier may give for any address.
//   - Referee: connections, recipients and refusals by source address and
//     persona, held against what that persona tolerates; and those of each
//     narrow route over all sources, which ask it one at a time, as they do
//     each tenant of a gateway or hoster.
//   - List, truth and score files, and the override file that scales a prober's
//     budgets as the internet's speed-up scales the personas' limits.
//
// # What it refuses
//
// It imports nothing of the system that it judges, so as not to share a misreading.
// It listens only where its Network lets it, which is loopback or memory. Its
// ordinary domains end in .example (RFC 2606 section 3), so that a list which
// strays to the real internet reaches only the major providers there,
// whose names cannot be pretended.
//
// # Invariants
//
//  1. The same Config gives the same world, and the same (seed, rows) the same
//     list, byte for byte.
//  2. Mailbox is a pure function of the seed and the folded address. A local
//     part that the rule did not make is Absent, save with a chance of less than
//     one in twenty thousand for those that end in exactly five digits.
//  3. Truth never depends on what was asked before: a throttled probe may end as
//     UNKNOWN, but no throttling looks like a missing mailbox unless the real
//     provider's does.
//  4. No address of a host lies outside Config.Network and [::1]; the unroutable
//     ones are never dialled by a correct client and never listened on.
//  5. With Speedup N every waiting time of a persona is divided by N and every
//     per-minute and per-hour limit multiplied by N; 0 means no waits, no limits.
package sim
