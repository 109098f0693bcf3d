// Package passwords hashes passwords with argon2id and compares them with hashes.
//
// Invariants:
//  1. At most two computations run at one time and 32 more wait; any other is refused at once with ErrBusy.
//  2. A hash carries its cost, so that a Hasher of another cost matches it; a hash whose cost would exhaust the machine
//     is refused.
//  3. How long a comparison takes depends on the cost, not on the passwords.
package passwords
