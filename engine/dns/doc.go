// Package dns finds where a domain receives mail, and the addresses of a mail host.
//
// It is a stub resolver: it decides which recursive server is queried first, when a query is repeated, and what is
// cached for how long. Messages are packed and parsed by miekg/dns.
//
// It does not judge. NXDOMAIN, NODATA, SERVFAIL and a timeout are four facts, reported as they are; whether a host's
// address may be dialled is decided elsewhere. It opens no socket except through Config, and keeps no goroutine outside
// of Run.
//
// Queries are queued per socket. The socket's writer sends all queued queries in one system call and expires those
// whose deadline has passed; its reader reads all answers that have arrived and hands each to the caller that waits for
// it.
//
// What must hold:
//
//  1. A reply counts only if its server, id, question name, type and class are those of a pending query (RFC 5452
//     section 9).
//  2. If two or more servers are configured, two must say that a domain does not exist, or has neither MX nor A, before
//     it is reported.
//  3. A failure to answer (SERVFAIL, REFUSED, lame, malformed, timeout) is never reported as NXDOMAIN or NODATA; the
//     next server is queried.
//  4. The domain itself is the mail host only where MX is NODATA and an address record exists (RFC 5321 section 5.1).
//  5. What a server sends is bounded, and so are memory and the queries that it is sent at one time.
//  6. Each name has one lookup at a time, whose answer later callers wait for.
//  7. When Run has returned, its sockets are closed, its goroutines gone and every caller answered.
//
// In detail:
//
//   - No NXDOMAIN of a server that answers NXDOMAIN for the root itself counts.
//   - The bounds are 16 MX records (the best), 16 addresses, 8 aliases in a row, 64 KiB a message; CacheSize routes,
//     CacheSize hosts, MaxInFlight queries. 240 queries fit into a server's buffer; more are sent as it answers, or
//     once it must have read the earlier ones.
//   - A host name that is not made of letters, digits, hyphens and underscores is dropped, never repaired.
//   - A caller whose context ends does not fail the others.
package dns
