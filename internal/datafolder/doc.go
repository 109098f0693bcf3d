// Package datafolder keeps what a process needs of its data folder before any store is open: who may read it, and which
// coordinator it belongs to.
//
// Invariants:
//  1. After Restrict or RestrictOwn, only the owner can read what the process owns of the folder, and what the process
//     makes from then on.
//  2. Restrict warns about what stays open because another user owns it; RestrictOwn leaves that to the command that
//     serves.
//  3. Each NextTerm of a folder returns the same id and a higher term, which is durable.
package datafolder
