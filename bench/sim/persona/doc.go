// Package persona has the kinds of receiver of the simulated internet, as data: how a receiver's names look in the DNS,
// how its hosts behave and what they reply, what it tolerates, and what an honest verifier may conclude about each
// mailbox behind it.
//
// The server (bench/sim/smtpd) does what a Behaviour says; the referee compares its clients with the Limits.
//
// # Invariants
//
//  1. A Persona is read-only once made, and two calls of All share none.
//  2. What a persona tolerates is never less than the budgets of a prober, at any speed-up: limits are rounded up.
//  3. With a speed-up of N each wait is divided by N, and each limit by the minute or the hour multiplied by it; 0
//     means no waits, and only the limits that hold at any speed.
//  4. Expect never depends on earlier probes: a throttled probe may end as UNKNOWN, but no throttling looks like a
//     missing mailbox unless the real provider's does.
//  5. Each text is a whole SMTP reply, and appending it allocates nothing.
package persona
