// Package memlimit keeps the memory of a process flat: it moves the garbage collector's limit with the live heap.
//
// Invariants:
//  1. If the environment sets GOMEMLIMIT, that is the limit.
//  2. The limit is at least the given one, unless that is more than four fifths of what the machine or the container
//     has.
//  3. A live heap near the limit raises it, so that the collector never runs without end.
package memlimit
