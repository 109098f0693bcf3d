// Command probity verifies e-mail addresses: one at a time or in lists of millions, on the command line or as a service.
//
// It knows flags, files and sockets, and connects the packages: it alone imports both prober and coordinator, and hands every
// room what that may not open by itself (dial functions, listeners, a file system, a logger, a registry). It refuses to
// decide: what a reply means, what a job may do or what a request is answered is decided in those packages. One file a subcommand;
// node.go puts together what verify, serve and the coordinator share, serve.go what stands around it.
//
// Invariants:
//  1. Exit status 0 is done, 1 failed, 2 wrong usage; a verdict is never an exit status. Results go to standard output,
//     everything else to standard error.
//  2. Flags win over PROBITY_* variables, those over the file of --config, that over defaults. A flag that takes one value
//     and is given twice is refused: which was meant is not for us to choose.
//  3. What is wrong with the command line is said before any server is asked, with what to do about it; a list that is refused
//     leaves nothing behind.
//  4. A list is verified whole or leaves its progress next to the result: interrupted in any way, the same command goes on
//     from there. A folder that is not ours is never removed, a finished result not written over without --force.
//  5. On SIGTERM requests end first, then callbacks, then the node; everything is out within 25 seconds.
//  6. No password, key or secret is printed but the one that the command was asked for, once; none is in a flag.
package main
