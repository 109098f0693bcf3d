// Package conn opens the SMTP connections of one node: it finds the addresses of a mail server, connects from an egress
// source and greets. TableExcludes says whether a provider table lets a node ask the hosts at all. What a connection
// costs, and what its failure says about the host or the source, its caller decides.
//
// Terms: a source reaches one IP version; the node's IPv6 source connects to IPv6 addresses for all others. A ticket
// resumes a TLS session without a full handshake.
//
// Invariants:
//  1. Only an address that DNS has for the host is returned, and only one that a source of this node can connect to.
//  2. Private, loopback and link-local addresses are asked only with AllowPrivate.
//  3. LacksIdentity reports a public server that must not be asked, as there is no EHLO host name or MAIL FROM; the
//     caller checks it before Dial.
//  4. A TLS session is resumed only at a host of the same provider that the certificate of the session names.
//  5. A dial ends within ConnectTimeout. No lock is held across I/O.
package conn
