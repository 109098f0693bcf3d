// Package frames has the messages between a coordinator and a node, which tools/wire.sh generates from wire.proto, and
// how the values of package wire are written to them and read from them.
//
// Invariants:
//  1. What is written is read as it was, but for the MX and the details of a batch's results, which are not sent; times
//     of evidence are kept to the millisecond.
//  2. No message that a peer can send makes a reader panic; one that no peer of this protocol sends is ErrMalformed.
//  3. A batch that was read has at most wire.MaxRows rows, each with a number of its own and a routable route, whose
//     provider is of the reader's table.
//  4. What is kept of a status is bounded, whatever the node sends.
package frames
