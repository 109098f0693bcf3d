// Package dnsd is the name server of the simulated internet: it answers with the records of a World, and NXDOMAIN for
// any other name. It claims recursion, as clients expect of a resolver.
//
// # Invariants
//
//  1. Each query gets one answer; a negative one has an SOA with its time to live (RFC 2308).
//  2. Aliases are followed (RFC 1034 section 3.6.2), at most eight of them: a loop ends with SERVFAIL.
//  3. A name that has no records, but names below it, exists (RFC 8020).
//  4. Serve closes both sockets, and idle clients do not hold it up.
package dnsd
