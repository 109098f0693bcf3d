// Package verify has the command that verifies addresses or a list without a server: with a node of its own, which ends
// with it.
//
// Invariants:
//  1. What is wrong with the command line, the list or the place of the result shows before any server is contacted.
//  2. A list is verified completely, or its progress stays in a folder next to the result, from where the same command
//     continues; a run that fails before its list is a job, and one of a list on standard input, leave nothing behind.
//     The progress of another run stays, and so does a folder of other files.
//  3. A finished result appears whole or not at all, and is not written over without --force, unless an interrupted
//     list goes on.
//  4. Addresses are answered in their order; results go to standard output, everything else to standard error.
package verify
