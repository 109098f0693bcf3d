// Package press knows when singles press: when so many come within a moment that lists are to give way to them. A coordinator
// rests its work on rows then, and a prober its batches, its sessions and the tables of its cache, by the count of the process's coordinator
// where there is one, else by its own. Of fewer, each waits a few milliseconds longer beside a list, and the list loses nothing.
//
// It knows counts and times that it is given. It refuses to say who gives way to whom, and for how long.
//
// Invariants:
//  1. Fewer than Least calls above Rate never press. Once they are as many, singles press until all have had their time, which is Hold
//     after the last at the latest: of calls that then come at just Rate that is never. The zero Meter has heard of none.
//  2. A Meter takes no memory, waits for nobody but other calls, and is safe for concurrent use.
//  3. Of those who share Breaths no more breathe at one time than NewBreaths says, in the order in which they came.
package press
