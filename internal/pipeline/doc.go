// Package pipeline runs work on items in parallel and hands the results on in order.
//
// Invariants:
//  1. Items are taken in the order in which they were filled, each after its work has ended without an error.
//  2. There are never more than workers+2 items, whatever the length of the input.
//  3. The first error in item order ends the pipeline and is its result; a panic is such an error, unless it must end
//     the process.
//  4. All goroutines of a pipeline have ended when Run returns, and its items are in their pool.
package pipeline
