// Package addresses finds the addresses in the text of a list, and keeps sets of them, which tell an erasure which
// files it need not read.
//
// Invariants:
//  1. Of an address that was added to a set, MayContain is true.
//  2. A set that is missing, damaged, or made by other Rules may contain any address.
//  3. A set from which an address was removed says nothing of it, and still contains each other address.
//  4. Memory does not grow with the set.
package addresses
