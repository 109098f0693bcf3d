// Package deliveries keeps which results are delivered to buckets: when the next attempt is due, how far an upload is,
// and what became of it. Its records are in the state store, in one table.
//
// Invariants:
//  1. A delivery is accepted in the commit that accepts its job, and is due from the commit on that ends the job.
//  2. It is pending until a recorded attempt ends it: one that a crash or a stop interrupts is made again.
//  3. An upload is of one file, by its checksum. Its parts are recorded in their order, without a gap.
//  4. Attempts in a row that brought no part beyond those of earlier uploads of the file are bounded, and so are parts.
package deliveries
