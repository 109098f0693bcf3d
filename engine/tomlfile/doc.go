// Package tomlfile reads the TOML files of operators and says at which line a mistake is.
//
// Invariants:
//  1. Every key of a file has a field of the value that it is read into, or is a mistake.
//  2. A Mistake names the line of what is wrong, or 0 for none. After one that is wrong by itself, its key has no
//     other.
//  3. Statements lie in order, none over another, and each reads the same alone under its header.
package tomlfile
