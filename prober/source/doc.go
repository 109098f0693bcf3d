// Package source keeps what a node knows of its egress sources: which of them asks a receiver, how much of each budget
// a new one may use, whether it can connect, and where it is quarantined. It sends nothing: callers make the trial
// connections that it plans.
//
// Invariants:
//  1. The same route, or domain, or address at a wide provider's consumer domains, has the same source while the set is
//     the same; only at wide providers another source takes over while it is quarantined there.
//  2. A source is suspect after failures at five routes in a row, and down after twenty failures at ten; one success
//     ends both.
//  3. While a source is down, one trial connection is made in thirty seconds; while it is quarantined everywhere, one
//     in the interval that the caller gives.
//  4. Three routes that refuse a source as blocklisted quarantine it everywhere, also over a restart; an entry that
//     cannot be read counts as a quarantine until the next trial connection.
//  5. A source that receivers on the internet see begins with a tenth of every budget and doubles it daily; a limit
//     that is set stays above zero.
//  6. Each source has one mutex, which is not held while the cache is read or written.
//
// In detail:
//
//   - A trial connection has one taker; a delisting trial that was not dialled is given back.
package source
