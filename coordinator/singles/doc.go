// Package singles verifies single addresses by a deadline, and answers later, by a callback, the calls that asked for
// it and ended without a verdict: greylisted, or at their deadline.
//
// Invariants:
//  1. A call that was told that its callback is pending has it in the state store, in the commit that settled the call.
//  2. Its verdict, its charge and its callback are one commit: a crash before it repeats the verification, one after it
//     nothing.
//  3. An account has at most MaxWaiting of these calls that wait, and those whose requests are under way.
//  4. After Erase has returned nil, no record is about the address.
//
// A call waits for a day at most; then the verdict is what is known. Its record is kept for as long as results of jobs
// are.
package singles
