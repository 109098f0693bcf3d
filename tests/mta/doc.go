// Package mta tests against real mail servers: Postfix, Exim, OpenSMTPD, Dovecot, chasquid and maddy. Each has
// configurations in this package, with the right verdict of every address. The simulated internet (bench/sim) shows how
// we believe that servers answer; these servers show how they do.
//
// `make mta`, as root on Linux, downloads the servers into a cache folder and runs TestMailServers. Without it the test
// is skipped with the reason.
//
// Invariants:
//
//  1. The servers are started as their own programs, with configuration files as an operator would write them; nothing
//     stands in for them.
//  2. The probes are made by the probity program, through its command line, with its shipped provider table.
//  3. No packet leaves the machine: prober and servers are in network namespaces without a route out.
//  4. Everything is in one process, mount and network namespace that ends with the test, so no process, mount or
//     interface is left after a failure.
//  5. A verdict must have the status and the reason of the configuration; UNKNOWN is right only if a row says why no
//     verifier can know more.
//
// In detail:
//
//   - The cached systems are only read; a server writes to a layer in memory.
package mta
