// Package tlsfront is the TLS of the public listener: a certificate from files, or one from an ACME authority.
//
// Invariants:
//  1. The flags name one place that the certificate comes from, or none, which leaves TLS to a proxy.
//  2. A pair of files is served only after Use; files that are broken or expired are refused, and the pair in use
//     stays.
//  3. An authority is asked only for the given names, and its certificates are kept for the next start.
//  4. No failure to get or renew a certificate from it goes uncounted or unlogged, but no client's mistake is one.
//  5. All methods of a nil Listener are those of a listener without TLS.
package tlsfront
