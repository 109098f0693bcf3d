// Package timing holds the times by which a coordinator and its nodes agree, without a message between them, on which
// node may ask a receiver.
//
// Invariants, which TestTimeoutsAreOrdered checks:
//  1. A node that is isolated stops asking before it is given up, and long before another takes over what it had.
//  2. A new coordinator gives no route away before the node that had it under the one before has stopped.
package timing
