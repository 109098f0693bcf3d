// Package plan computes the least time in which the budgets of the provider table allow a list to be verified, and says which
// receivers need it. It is pure: it knows the table's limits and counts of what is due, nothing of DNS, of the clock or of what
// was used of a budget before.
//
// Invariants:
//  1. The time is a lower bound: no order of questions and no split over sources is faster. A budget that nothing has used yet
//     may be used up at once, so the first window costs no time; each further window costs its whole span.
//  2. What is due at a domain is its addresses and one decoy, which is refused where the receiver refuses unknown recipients. Where an
//     answer would prove nothing, or the table forbids to ask, nothing is due.
//  3. How a receiver's work is split over sources follows from its kind alone (split.go): one source has a narrow route; all have a
//     wide provider or one with tenants, at best evenly, but never finer than by domain, or by address at the consumer domains that
//     the table names.
//  4. More sources never make a plan longer.
//  5. Not counted: round trips, greylisting and retries; warm-up of new sources; budgets of an address that hosts of several routes
//     share; what the cache answers.
package plan
