// Package logs lets customers look up what their account did: it writes the history of requests and verifications, and
// serves pages of it.
//
// Invariants:
//
//  1. A page has rows of the account of the request and of no other.
//  2. A verification is written for each address that was answered with a verdict, and for no other.
//  3. No address is in a request's row.
package logs
