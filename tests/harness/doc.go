// Package harness has what tests of the whole program share: the program as a process, a node in memory, checks of
// results against the truth of the simulated internet, and checks of the referee's report on the limits of receivers.
//
//   - A check compares with what the simulated internet knows, never with what the program says of itself.
//   - A check fails the test that calls it; its verdict is never a return value that a caller could forget to look at.
//   - A check starts no process, goroutine or clock: the same checks serve tests in virtual time and tests of
//     processes.
//   - The program of a test is the one of the sources that lie there: it is built once for all tests of a package.
package harness
