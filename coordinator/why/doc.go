// Package why explains what the open rows of a running job wait for, by receiver: a budget, a retry, a node, the DNS,
// or the end of a quarantine; when the first of them may be asked, and when all are expected to be done.
//
// Invariants:
//  1. Every open row that the scheduler or a prober has counts once, at one receiver.
//  2. A receiver has a name that people know: its provider's, or its first mail host. No internal class is shown.
//  3. It decides nothing: it is a function of what the scheduler and the probers' ready queues say.
package why
