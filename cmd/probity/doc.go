// Command probity verifies e-mail addresses: one at a time or in lists of millions, on the command line or as a service.
//
// It handles flags, files and sockets, and connects the packages. It alone imports both prober and coordinator, and gives each
// package what that does not open by itself (dial functions, listeners, a file system, a logger, a registry). The meaning of a
// reply, the rules of a job and the answer to a request are decided in those packages. Each subcommand has one file, or a package under
// internal; node.go connects what verify, serve and the coordinator share, serve.go the rest of a service.
//
// Invariants:
//  1. Exit status 0 means done, 1 failed, 2 wrong usage; it never depends on a verdict. Results go to standard output,
//     everything else to standard error.
//  2. Flags win over PROBITY_* variables, those over the file of --config, that over defaults. A flag that takes one value
//     and is given twice is refused.
//  3. Errors of the command line are reported before any server is contacted, with what to do; a refused list leaves no files
//     behind.
//  4. A list is verified completely, or its progress stays next to the result: after any interruption, the same command continues
//     from there. A folder that we did not make is never removed, and a finished result is not overwritten without --force.
//  5. On SIGTERM requests end first, then callbacks, then the node; the process ends within 25 seconds.
//  6. The only secret that a command prints is the one that it was asked for, once. No flag holds a secret.
package main
