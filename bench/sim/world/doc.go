// Package world is the population of one simulated internet: its domains, MX hosts, addresses and DNS records, which
// mailboxes exist, the lists of its people, and the outcomes that an honest verifier may give for any address.
//
// It computes everything from one seed and stores nothing for each address: a list of five million rows needs no more
// memory than one of ten.
//
// # Invariants
//
//  1. The same Config gives the same World, and the same (world, rows, seed) the same list, byte for byte.
//  2. A World is read-only once made, and so safe for concurrent use.
//  3. Mailbox is a pure function of the seed and the folded address: any other local part is Absent, and one that ends
//     in exactly five digits may exist with a probability below one in twenty thousand.
//  4. Truth depends on nothing but the world and the address.
//  5. All addresses of hosts are in Config.Network or [::1]; ordinary domains end in .example (RFC 2606 section 3), so
//     that a list used on the real internet by mistake reaches only the major providers, whose real names it needs.
package world
