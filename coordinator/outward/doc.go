// Package outward connects to servers that customers name: receivers of callbacks, and servers that lists are fetched
// from. It keeps them from reaching the network that we are in.
//
// Invariants:
//  1. The address that is dialled is one that was checked, and the address that a connection has is checked again:
//     what a name resolves to may differ each time.
//  2. Special-purpose addresses (private, loopback, link-local, reserved, those that carry an IPv4 address in IPv6) are
//     refused, unless the operator allows their network.
//  3. An error's text names no address but that of the URL.
package outward
