// Package addresses finds the addresses in the text of a list, and keeps sets of them, which tell an erasure which
// files it need not read.
//
// Invariants:
//  1. MayContain is true for every address that was added to a set.
//  2. A set that is missing, damaged, or made by other Rules may contain any address.
//  3. After WriteWithout, MayContain is true for every other address that was added.
//  4. Of a set, memory has one page and the directory: 16 bytes for each 16 KiB.
package addresses
