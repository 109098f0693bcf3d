// Package plan computes the least time in which the budgets of the provider table allow a job to be verified, and which
// receivers determine it. It is pure: it knows the table's limits and the work due, but no DNS, no clock and no budget
// usage.
//
// Invariants:
//  1. The time is a lower bound: no order of recipients and no split over sources is faster.
//  2. The work due at a domain is its addresses and one decoy, which is refused if the receiver refuses unknown
//     recipients; if an answer would prove nothing, or the table disables probing, nothing is due.
//  3. The split of a receiver's work over sources follows from its kind alone: a narrow route has one source; a wide
//     provider or one with tenants has all, at best evenly, but never finer than by domain, or by address at the
//     consumer domains that the table names.
//  4. More sources never make a plan longer.
//  5. Not counted: round trips, greylisting and retries; warm-up of new sources; budgets of an address that hosts of
//     several routes share; answers from the cache.
//
// In detail:
//
//   - An unused budget may be used up at once, so the first window costs no time; each further window costs its whole
//     span.
package plan
