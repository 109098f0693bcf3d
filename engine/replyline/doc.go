// Package replyline reads the lines of SMTP replies (RFC 5321 section 4.2), for sessions and for replies that are given
// as text: both read alike.
//
// It tolerates careless servers where a line can only mean one thing: white space before the code, none behind it,
// lines in the middle without a code, a later line with another code. It does not know what texts mean.
//
// Invariants:
//
//  1. A reply begins with a line that has a code of 200 to 599.
//  2. A later line may turn a reply into a refusal, and none into an acceptance.
//  3. An escaped line is valid UTF-8, and no byte of another charset is lost in it.
package replyline
