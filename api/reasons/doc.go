// Package reasons has the reasons of verdicts as the API shows them, and the verdicts that test keys get for them.
//
// Invariants:
//  1. Every reason of the engine has a line that says what it means.
//  2. A simulated verdict has the flags, details and score that a real one with its reason may have.
package reasons
