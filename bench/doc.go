// Package bench measures Probity as a user would. It starts our binary as processes next to the simulated mail
// internet, drives it over its command line and over HTTP, compares every result with the truth, and reports each
// number with its baseline.
//
// # Terms
//
//   - Scenario: one thing worth measuring, with its default number of rows. Scenarios lists them.
//   - Baseline: the least work that gives the same traffic, measured in the same run against the same servers: a bare
//     pipelined SMTP client, a bare client on one shared DNS socket, a bare HTTP handler, parsing and zstd of the same
//     bytes. They are in bench/baseline.
//   - Trial: one run of a scenario. It starts processes, samples them, and fills in the Report.
//   - Conversation: our sessions, replies and verdicts without the rest of the prober, supplied by the caller, for
//     comparison with a bare SMTP client.
//   - Resolve: our resolver, supplied likewise, for comparison with a bare DNS client.
//   - Fleet: a coordinator and probers as processes, each prober with a loopback address of its own.
//   - Report: metrics with units, bars with their limits, and the data of the plots: see bench/report.
//
// # Limits
//
// It imports none of our packages but those below it: it measures what a user gets, a Conversation and a Resolve. It
// connects to loopback only. It starts, samples and ends processes by bench/process.
//
// # Invariants
//
//  1. A baseline runs in the same run as the code that it is compared with, against the same servers, on the same rows.
//  2. A command's time is measured from the start of its process to its end, start-up included, and from outside.
//  3. A result that does not agree with the truth fails its bar at any speed.
//  4. A conversation and a resolver run within this process, as their baselines do, on the same tasks with as many
//     connections or queries.
//  5. Memory that grows with rows: the recipients of a baseline, and four bytes for each name of the dns scenario.
//  6. On a shared machine the report says how much of the processors others used.
//  7. Every file is in the directory of the options, and every process ends before Run returns.
//
// Addresses that need no probe (bad syntax, decided by the provider's rules) are removed before the clock of a
// conversation starts. For a load at a fixed rate the report also has the CPU time that the host of a virtual machine
// withheld. Baselines of bytes, and uploads, are measured three times and the fastest counts: other load can only slow
// them down.
//
// The module bench/peers compares Probity with other libraries.
//
// Memory and CPU of processes are read from /proc. On systems other than Linux these metrics are absent and their bars
// fail.
package bench
