// Package press knows when singles press: when so many come within a moment that lists are to give way to them. A coordinator
// rests its work on rows then, and a prober its batches and sessions, each by its own count of the calls that it was asked. Of fewer, each
// waits a few milliseconds longer beside a list, and the list loses nothing.
//
// It knows counts and times that it is given. It refuses to say who gives way to whom, and for how long.
//
// Invariants:
//  1. Singles press for Hold after each one that was at least the Least of its span; the zero Meter has heard of none.
//  2. A Meter takes no lock and no memory, and is safe for concurrent use. Calls that meet at the turn of a span may be counted in
//     either, or not at all: a meter is no ledger.
//  3. Of those who share Breaths no more breathe at one time than NewBreaths says, in the order in which they came.
package press
