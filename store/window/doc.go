// Package window counts events in a sliding window of time; a value without a lock.
//
// Invariants:
//  1. A window never allows more than its limit in any span.
//  2. A stored window is read as it was, or refused.
package window
