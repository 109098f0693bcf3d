// Package redact makes what mail servers say fit to be stored and shown.
//
// Invariants:
//  1. The result is one line of valid UTF-8, at most MaxText characters.
//  2. No address is in it, nor the local part that it was to leave out.
//  3. Redacting a result again, with the same local part, changes nothing.
package redact
