// Package ingest makes jobs of uploads: it reads a CSV list, packs it into frames, counts its addresses, finds
// duplicates, and commits the job.
//
// Invariants:
//  1. Accept returns a job only after its upload and its record are durable; a refused or broken upload leaves nothing.
//  2. Memory does not grow with the list: blocks in flight are bounded, and the hashes of addresses are sorted through
//     a scratch file.
//  3. Two rows are duplicates if their addresses are equal in folded form or, where they do not parse, as typed; hashes
//     have a random seed, so that no client can prepare collisions.
package ingest
