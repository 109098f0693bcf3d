// Package doctor audits the environment of a node: its egress sources, what the DNS says of them, and what its machine
// allows.
//
// It knows egress identities, PTR and SPF records, DNS blocklists, resolvers, the way to port 25, the clock, file
// limits and the store's folder; and how an operator's provider file differs from the shipped table. Each thing looked
// at gives one Finding: what was seen and, unless it is OK, what to do.
//
// It does not repair, guess or touch other people's servers. What could not be found out is Unknown, never OK and never
// Fail. It opens sockets and files only through its Config, and starts nothing before Run.
//
// Invariants:
//
//  1. A finding that is not OK says what to do; one that is OK asks for nothing.
//  2. SMTP goes to the mail servers of MAIL FROM's own domain, or to the one configured target, and nowhere else: at
//     most one connection an identity and audit that gets as far as a banner, at most one recipient an audit (the
//     mailbox of MAIL FROM itself).
//  3. A DNS failure (SERVFAIL, REFUSED, silence) is never read as "no such record", and a blocklist counts as asked
//     only where its test entry can be seen (RFC 5782 section 5).
//  4. SPF is evaluated as RFC 7208 says, up to the first term that matches, its limits included: 10 lookup terms, 2
//     void lookups.
//  5. Bounds: 512 identities, 8 resolvers, 32 blocklists; 8,000 DNS questions, 8 at a time, and 2 minutes an audit.
//  6. Text that a peer sent is cut to 160 printable ASCII characters before it is shown.
//  7. A Report is immutable once Latest gives it; the metrics are read from that one Report.
package doctor
