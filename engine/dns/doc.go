// Package dns finds where a domain takes its mail, and where a mail host can be reached.
//
// It knows how a stub resolver treats the recursive servers it was given: which is asked first, which is asked again, what is
// remembered and for how long. Messages are packed and parsed by miekg/dns.
//
// It refuses to judge. NXDOMAIN, NODATA, SERVFAIL and silence are four facts, told as they are; whether a host's address
// may be dialled is not asked here. It opens no socket but through Config, and keeps no goroutine outside of Run.
//
// Callers put their queries into the send queue of a socket, whose writer sends what has gathered there with one system call, and ends
// the tries whose time is up; its reader takes as many answers as there are, and hands each to who waits for it.
//
// What must hold:
//
//  1. A reply counts only if its server, id, question name, type and class are those of a pending query (RFC 5452 section 9).
//  2. That a domain does not exist, or has neither MX nor A, is told only when two servers said so, where two or more are
//     configured; where one is, its word is all there is. One that denies the root itself is believed in nothing it denies.
//  3. A failure to answer (SERVFAIL, REFUSED, lame, malformed, silent) is never told as NXDOMAIN or NODATA; the next server is asked.
//  4. The domain itself is the mail host only where MX is NODATA and an address record exists (RFC 5321 section 5.1).
//  5. What a server sends is bounded: 16 MX records (the best), 16 addresses, 8 aliases in a row, 64 KiB a message.
//     A host name that is not made of letters, digits, hyphens and underscores is dropped, never repaired.
//  6. One name is asked once at a time; who comes later waits for the same answer. A caller whose time is up does not spoil it for the others.
//  7. Memory is bounded: CacheSize routes, CacheSize hosts, MaxInFlight queries. So is a burst: 240 queries find room in a server's
//     buffer; more leave as it answers, or is seen to have read what was sent before.
//  8. When Run has returned, its sockets are closed, its goroutines gone and every caller answered.
package dns
