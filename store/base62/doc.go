// Package base62 makes and recognises the secrets that the store gives to people: API keys, session tokens, passwords.
//
// Invariants:
//  1. The random characters of a secret are equally likely.
//  2. A key with one wrong character is not well-formed.
package base62
