// Package receipt makes and checks receipts: verdicts that this installation has signed, to be shown to others.
//
// A receipt is a JSON object. Its member signature is the Ed25519 signature (RFC 8032), in base64, of the canonical
// form (RFC 8785) of the object without that member. Numbers are whole, so that the canonical form needs no rule for
// others.
//
// Invariants:
//
//  1. What Sign made is accepted by Verify as long as its content is the same; spaces and the order of members do not
//     count.
//  2. A receipt with other content is refused: a member twice, bytes that are not UTF-8, or a number that is not whole
//     are not read at all.
//  3. No address is in a receipt: its statement has a hash.
//  4. What Parse reads is bounded, and no input makes it panic.
package receipt
