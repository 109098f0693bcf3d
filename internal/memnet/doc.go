// Package memnet is an in-memory network for tests of servers and clients.
//
// Invariants:
//  1. It takes no time; every goroutine that waits in it is durably blocked in the sense of testing/synctest.
//  2. Any address can be bound, once.
//  3. A connection carries bytes in order, and buffers 64 KiB each way; bytes written before Close are delivered.
//  4. A listener's backlog holds 512 connections (a dial waits for room), a socket 4,096 unread datagrams (more are
//     lost).
//
// In detail:
//
//   - An address without a listener refuses connections; a datagram to an unbound address is an error for a connected
//     socket, and is lost otherwise.
package memnet
