// Package phrase reads the text conditions of the provider file, and turns replies into the plain words that they are
// compared with.
//
// It does not know rules: which phrase of which rule occurs in a reply is found by package engine, in one pass for all
// rules.
//
// Invariants:
//
//  1. Words are lower-case, separated by one space, and the same whatever the punctuation between them.
//  2. Notation and replies are normalised by the same function, so a phrase fits the text that it was copied from.
//  3. A mail address is one word, "@": the name of a mailbox is never read as a server's words.
//  4. Bounds: 4,096 bytes of words a reply, 6 places a phrase, 16 variants a notation, 48 bytes a gap.
package phrase
