// Package receipts signs verdicts with the keys of the store, and shows the keys.
//
// Invariants:
//
//  1. A receipt is made only of a result with details, as the API shows it or showed it.
//  2. The newest key signs; all keys are shown.
package receipts
