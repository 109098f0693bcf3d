// Package charset reads replies that are not in UTF-8: RFC 5321 section 4.2 knows ASCII only, RFC 6531 section 3.3 adds
// UTF-8, and many servers use the charset of their country without saying which.
//
// It does not know what words mean: a charset is right if its text is one that a rule of package engine fits, else the
// likeliest.
//
// Invariants:
//
//  1. A reply in ASCII or UTF-8 costs one look for escaped bytes (replyline.Escape), and is not changed.
//  2. A reading is strict: every byte is a printable character of the charset.
//  3. A reply is classified in at most 8 readings, of at most 2,048 bytes.
package charset
