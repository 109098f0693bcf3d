// Package signin bounds sign-ins: how many a client and its network make in a minute, and how many passwords or codes
// are tried for a login from a network.
//
// Invariants:
//  1. Failures count alike whether or not a login has an account.
//  2. Memory is bounded, and what a store keeps of lock-outs is bounded with it.
//  3. No lock-out lasts longer than the longest, however the clock was set.
package signin
