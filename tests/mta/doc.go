// Package mta asks real mail servers: Postfix, Exim, OpenSMTPD, Dovecot, chasquid and maddy, each with a configuration that is
// written down here together with the verdict that every address deserves. The simulated internet (bench/sim) answers as we
// believe that servers do; these answer as they do.
//
// `make mta`, as root on Linux, fetches the servers into a cache folder and runs TestMailServers. Without it the test is
// skipped and says why.
//
// What must hold:
//
//  1. The servers are started as their own programs, with configuration files as an operator would write them; nothing answers
//     in their name.
//  2. The probes are made by the probity program, through its command line, with its shipped provider table.
//  3. No packet leaves the machine: prober and servers are in network namespaces without a way out.
//  4. Everything is in one process, mount and network namespace that ends with the test, so no process, mount or interface can
//     be left over, whatever fails. The cached systems are only read; a server writes to a layer in memory.
//  5. A verdict must have the status and the reason that the configuration calls for. UNKNOWN is right only where a row says
//     what forces it.
package mta
