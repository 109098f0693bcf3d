// Package memnet is a network in memory, on which tests run servers and clients.
//
// Invariants:
//  1. It takes no time of its own. Everything that waits in it is durably blocked in the sense of testing/synctest.
//  2. Any address can be bound, once. An address without a listener refuses connections; a datagram to it is reported to its sender
//     when that has a connected socket, and is lost otherwise.
//  3. A connection carries bytes in order, and buffers 64 KiB each way. What was written before Close is delivered.
//  4. A listener holds 512 connections that wait to be accepted, a socket 4,096 datagrams that wait to be read; more datagrams are lost,
//     and a dial waits.
package memnet
