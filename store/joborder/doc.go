// Package joborder has the orders of lists of jobs, and the cursors of their pages.
//
// Invariants:
//
//  1. No two jobs have one place in an order, and each pair of orders is one order and its reverse.
//  2. A cursor is the place of the last job before its page: it is good also when that job is deleted.
package joborder
