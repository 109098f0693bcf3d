// Package service has tests of the program as its users have it: the command, the server and its customers, all as
// processes against a simulated internet, and what kills, signals, full disks and other faults do to them.
//
//   - What is tried is the program itself, through its command line, its API, its files and its signals. Tests of flags
//     and of what errors say are in cmd/probity.
//   - The program has the race detector if the tests have it.
//   - After a kill or a fault nothing is lost, doubled or charged twice, and no receiver's limit is exceeded.
//   - Faults follow from a seed, which is printed and can be given again.
package service
