// Package process has tests of fleets as processes, each on a machine of its own: a network namespace of this kernel.
// They need Linux and root, and are skipped with the reason elsewhere.
//
//   - make test has TestFleetOfProcesses, which disturbs nothing. Kills, cuts and older versions take minutes and more:
//     make fleet, make kills and make versions have them, and tests/fleet asks the same in virtual time.
//   - What is tried is the program itself, through its command line, its API and its signals.
//   - The machine's own network is not touched: tests run in a namespace of their own.
package process
