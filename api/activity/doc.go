// Package activity keeps what a server did in the last 24 hours, minute by minute, for operators who look for what
// changed and when: answers by status, rows that wait, the age of the oldest unfinished job, how much of the receivers'
// budgets was used, and at which hosts probes failed.
//
// Invariants:
//  1. It only reads. Nothing is decided by it, and it keeps nothing on disk: after a restart it begins anew.
//  2. Memory is bounded: Kept minutes, each with at most maxNames receivers and hosts.
//  3. A minute that cannot be read is left out, and the log says so; what was answered in it counts in the next one.
//  4. Failures are those among the probes that nodes remember, which are a part of all on a busy node.
package activity
