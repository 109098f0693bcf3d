// Package requestid makes the ids of requests.
//
// Invariants:
//
//  1. Ids are unique across processes.
//  2. They ascend within one process, so that new entries of a ledger are adjacent.
package requestid
