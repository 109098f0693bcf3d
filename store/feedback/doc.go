// Package feedback keeps what became of messages to verified addresses: reports that wait to be matched with a
// verdict, the outcome of each verdict, and the counts of outcomes. Its records are in the state store, in one table.
//
// Invariants:
//
//  1. No record has an address: only its HMAC under a secret of the installation.
//  2. Of one verdict one outcome counts, the greatest reported within MaxDelay. A report that is sent again changes
//     nothing.
//  3. Counts and the outcomes that they count change in one commit, and those in memory after it.
//  4. After Erase has returned nil no record of the address is left; counts stay, and name nothing.
//  5. Reports that wait are bounded for each account, and outcomes by the verdicts that were given.
//
// A report waits until Settle says what it was about. Reports about nothing are counted and dropped.
package feedback
