// Package press measures the load of single calls, and lets loops over rows yield to them.
//
// A Meter counts calls. While it is on, a prober lets fewer connections ask at one time (see the admission gate of
// package prober). Yield needs no meter: every loop over rows calls it.
//
// Invariants:
//  1. Fewer than Least calls above Rate never turn a Meter on.
//  2. A Meter is on until each call has had its time, at the latest Longest after the last.
//  3. A Meter has a fixed size, and is safe for concurrent use; the zero Meter is off.
package press
