// Package outcome says what became of messages that were sent to verified addresses: what a report means, how often
// verdicts of a kind were right, and how probable it is that an address takes mail.
//
// Invariants:
//
//  1. A refusal that is not about the mailbox says nothing about the verdict: it is Unclear and in no share.
//  2. Where a rule knows the text of a bounce, the rule decides; else the sender's own word does.
//  3. A probability is given only where at least MinObservations outcomes of the same receiver, status and reason are
//     known.
//  4. A Tally is the same whatever the order in which outcomes were added.
package outcome
