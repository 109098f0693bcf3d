// Package harness has what tests of the whole program share: checks of results against the truth of the simulated internet, and checks
// of the referee's report on the limits of receivers.
//
//   - A check compares with what the simulated internet knows, never with what the program says of itself.
//   - A check fails the test that calls it; nothing is returned that a caller could forget to look at.
//   - Nothing here starts a process, a goroutine or a clock: the same checks serve tests in virtual time and tests of processes.
package harness
