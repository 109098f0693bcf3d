// Package baseline has the bare clients and loops that a measurement is compared with: the least work that gives the
// same traffic.
//
// Invariants:
//  1. A bare client counts replies and judges none; its cost for a recipient, a question or a byte is the least that
//     ours can be.
//  2. It leaves out what needs no reply of a mail server: junk, names without a host, and hosts that never answer; it
//     counts recipients, not rows.
//  3. It connects from a source address of its own, so that it shares no limit of the simulated internet with the
//     prober.
//  4. Tasks are the same for the same list, at most maxRecipients recipients in all; what takes too short to measure is
//     repeated.
//  5. A loop over bytes does what any program must do with them, and only that is timed.
package baseline
