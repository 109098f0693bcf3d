// Package loglimit limits repeated warnings and errors of a log: what a client, a peer or a disk causes again and again
// must neither fill the log nor hide other messages.
//
// Invariants:
//  1. At most 5 lines of one message are logged in a second; the rest is counted, and the count is logged at the end of
//     that second.
//  2. Lines below a warning are never left out.
//  3. At most 256 messages are counted separately, and all others together.
package loglimit
