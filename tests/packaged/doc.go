// Package packaged tests the Debian package as an operator uses it: on a Debian system whose first process is systemd,
// the package is installed, configured, started, upgraded while a list is verified, and removed.
//
// `make packaged`, as root on Linux, makes the system in the cache of `make mta` and the packages with tools/release,
// and runs the tests. Without it they are skipped with the reason.
//
// Invariants:
//
//  1. The package is installed by apt and its services are started by systemd with the shipped units; nothing stands
//     in for either.
//  2. No packet leaves the machine: everything is in a network namespace without a way out, where the simulated
//     internet answers.
//  3. When the test ends, so do all processes, mounts and interfaces that it made.
package packaged
