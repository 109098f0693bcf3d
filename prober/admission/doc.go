// Package admission decides how many sessions may use the processor at one time (Gate) and how many connections may be
// open (Slots), and knows the load of single calls that the first depends on.
//
// Invariants:
//  1. A session that waits at the gate is admitted when another leaves, or by the gate's timer: it never waits forever.
//  2. While no session is inside, one is admitted within twenty milliseconds, however late timers are and whatever
//     single calls come.
//  3. Only Expedite and Reenter admit a session over the limit.
//  4. A ticket is admitted or withdrawn once; Wait returns true for a ticket that was admitted, even if its context has
//     ended.
//  5. No more slots are taken than there are, and none while they are closed.
//  6. The gate has a mutex and one timer, and no goroutine; no other lock is taken under the mutex, but that of the
//     load meter.
//
// In detail:
//
//   - Jobs leave a tenth of the slots to single calls, which come first; within a priority those that wait are woken in
//     the order in which they came.
package admission
