// Package rtt estimates how far hosts are, and what follows from it for connections and transactions. It is pure but
// for Shared, which has a mutex: callers measure, and say how long things took.
//
// Invariants:
//  1. A busy processor, which makes nearly all replies late, does not make a host look far: the least of many samples
//     counts.
//  2. Until there are enough samples, hosts count as near, and the time per recipient as unknown.
//  3. Samples age by number, not by time: only the latest 64 connections count in an Estimate, and the latest 15
//     transactions in the time per recipient; the set-up of a Latency is the least ever measured.
//  4. A far queue may have no fewer connections than a near one, and asks no more recipients in a transaction.
package rtt
