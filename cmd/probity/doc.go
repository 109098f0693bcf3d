// Command probity verifies e-mail addresses: one at a time or in lists of millions, on the command line or as a
// service.
//
// It parses the command line and its configuration, and runs a command. Each subcommand has one file, or a package
// under internal; internal/app connects what verify, serve, coordinator and prober run. The meaning of a reply, the
// rules of a job and the answer to a request are decided in the packages that these connect.
//
// Invariants:
//  1. Exit status 0 means done, 1 failed, 2 wrong usage; it never depends on a verdict.
//  2. Flags win over PROBITY_* variables, those over the file of --config, that over defaults; a flag that takes one
//     value and is given twice is refused.
//  3. Errors of the command line are reported before any server is contacted, with what to do; a refused list leaves no
//     files behind.
//  4. A list in a file is verified completely, or its progress stays next to the result: after any interruption, the
//     same command continues from there.
//  5. On SIGTERM requests end first, then callbacks, then the node; the process ends within 25 seconds.
//  6. The only secret that a command prints is the one that it was asked for, once; no flag holds a secret.
//
// In detail:
//
//   - Results go to standard output, everything else to standard error.
//   - A folder that we did not make is never removed, and a finished result is not overwritten without --force.
package main
