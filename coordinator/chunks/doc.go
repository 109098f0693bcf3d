// Package chunks packs rows of a job that wait to be sent to a prober, and reads them again. A chunk is a part of the
// job's scratch file; its rows have one route or many.
//
// Invariants:
//  1. A chunk whose bytes differ from what was written is ErrDamaged; the file is scratch, and the job makes all chunks
//     again.
//  2. Rows are shuffled over the chunks and within each, so that a run of bad addresses in a list does not become one
//     bad chunk.
//  3. A row has the route, flags, suggestion and attempt with which it was added; the route's limits are those of the
//     current table.
//  4. Memory that was built in goes back to its pool, and no row that was read refers to the bytes of its chunk.
package chunks
