// Package retention deletes what has been kept for long enough: results, records of jobs and of downloads, and files
// that no record names. It also decides whether the wall clock can be trusted to end something for good.
//
// Invariants:
//  1. Nothing expires in the hour after a start or a step of the wall clock, or in the day after if the clock is behind
//     the saved one or more than a day ahead (clock.go).
//  2. The wall clock is saved each minute.
//  3. The folder of a job that is being received is not touched; one that has expired or that the store does not know
//     is removed.
//  4. A failed removal harms no other job, and is tried again in an hour; only a failure of the state store ends the
//     process.
package retention
