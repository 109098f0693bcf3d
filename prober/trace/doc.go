// Package trace keeps recent probes of a node for people who ask why an address got its verdict.
//
// Invariants:
//  1. No address, local part or decoy is kept: replies are redacted, and an address is found by a key that only this
//     node can derive.
//  2. Memory is bounded: 1,000 probes of any outcome and 5,000 that ended UNKNOWN, so that those stay longer.
//  3. Record costs a busy node nothing: probes beyond the bounds of a second are skipped without a lock.
//  4. A trace does not change once it is kept.
package trace
