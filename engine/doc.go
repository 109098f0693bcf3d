// Package engine decides about addresses: what is a valid address, where its mail goes, what a server's reply means,
// and which verdict follows. It is pure: no I/O, no clock, no log, no goroutine, no package state. What happened comes
// in as data, the next step and the verdict go out as data; the packages around it act.
//
// # The path of one address
//
// Parse turns a string into an Address, or says what is wrong with it. Table.NewRoute turns the domain's MX set into a
// Route: the provider that serves it, or the set itself. From there a caller loops over Next:
//
//	for {
//		step := engine.Next(&ev, policy, now)
//		...                    // resolve, probe, probe a decoy, wait
//		ev.Append(sighting)    // what was seen
//	}
//	verdict := engine.Judge(&ev, policy, now)
//
// Table.Classify gives each SMTP reply its meaning before it becomes a Sighting: the stage first, then evidence about
// us, then the provider's rules, then the generic ones. Judge weighs the sightings and does not read the words again.
//
// # Glossary
//
//   - Address: a parsed mailbox. Folded: its identity for deduplication, cache and charging.
//   - Route: where the mail of a domain goes. Key: the provider's id, or the sorted MX set.
//   - Provider: a row of the table of receivers. Its Kind says how the sources of a fleet share it.
//   - Target: the recipient that is verified. Decoy: a random recipient of the same domain, probed at the same host.
//   - Catch-all: a domain that accepts any recipient. Accept-all: a provider that does so at RCPT for all its domains.
//   - Sighting: one thing that was seen. Evidence: all sightings about one address, append-only.
//   - Finding: what a reply means (Meaning), whose fault it is (Blame), which Rule says so, what to do (Action).
//   - Egress source: a source address and EHLO name of ours. Ready queue: a route probed from one egress source.
//   - Verdict: status, score, reason, and their evidence.
//
// # Invariants
//
//  1. The zero value of Status is UNKNOWN, of Tri "not known", of Meaning "unknown": what was not proven is not
//     claimed.
//  2. INVALID rests on bad syntax, a DNS fact, a provider's own mailbox rule, or a permanent reply at RCPT that blames
//     the recipient.
//  3. VALID rests on an acceptance and on the refusal of a decoy by the same MX host.
//  4. A block, a policy, a timeout or a refusal of us is never INVALID; evidence about the sender beats words about the
//     recipient.
//  5. After a reply about the recipient no other host is probed; at most three hosts are connected to for one address.
//  6. A loop over Next ends: retries are bounded by Policy.Schedule, unanswered questions by maxUnanswered.
//  7. Judge is total and deterministic: equal evidence gives an equal verdict.
package engine
