// Package bench measures Probity as a user would: it starts our own binary as processes next to the simulated mail
// internet, drives it over its command line and over HTTP, holds every result against the truth, and reports numbers
// together with the baseline that they are to be read against.
//
// # What it knows
//
//   - Scenario: one thing worth measuring, with the rows that it takes by default. Scenarios lists them.
//   - Baseline: the least work that could give the same traffic, measured in the same run against the same servers: a bare
//     pipelined SMTP client, a bare client on one shared DNS socket, a bare HTTP handler, parsing and zstd of the same bytes.
//   - Trial: one scenario at work. It starts processes, samples them, and fills in the Report.
//   - Talk: our conversation with mail servers without what stands around it, given from outside, for what a bare SMTP client
//     can be compared with: sessions, replies, verdicts.
//   - Resolve: our resolver likewise, for what a bare DNS client can be compared with.
//   - Fleet: a coordinator and probers as processes, each prober with a loopback address of its own.
//   - Report: metrics with units, bars with what was wanted, and what the page plots. Reports are written as JSON, as a
//     table, as one self-contained page, and are compared with older ones.
//
// # What it refuses
//
// It imports none of our packages but the simulated internet: what it measures is what a user gets, a Talk and a Resolve. It talks to
// loopback only. It starts processes and ends only those, each by its own handle.
//
// # Invariants
//
//  1. A baseline runs in the same run as what it is held against, against the same servers, on the same rows; the bare SMTP
//     client leaves out those that no mail server of the list is asked about at once: junk, names without a host, and
//     hosts that never answer. It counts recipients, not rows.
//  2. A command's time is measured from the start of its process to its end, start-up included, and from outside.
//  3. CPU time is what the system accounted to the process, user and system together; peak memory is the resident
//     high-water mark (VmHWM) as last sampled: every sampleEvery, in long runs every power of two of it.
//  4. A result that does not agree with the truth fails its bar, however fast it came.
//  5. A conversation runs within this process, as its baseline does, over as many connections at one time, on the same tasks; what
//     needs no asking (no address, settled by the provider's own rules) is left out of it before the clock starts. A resolver
//     runs within this process, too, with as many questions under way as its baseline has, over the sockets that it always has.
//  6. What is kept in memory by row: the recipients of a baseline, at most maxRecipients of them, and four bytes a name of
//     the dns scenario. Samples are at most maxSamples a process.
//  7. On a machine that others use too, the report says how many cores they took, and with a load at a fixed rate what a virtual
//     machine's host kept from it. Baselines of bytes, and uploads, are measured three times, and the fastest counts: others can only
//     slow them down.
//  8. Every file lies in the directory of the options, and every process ends, before Run returns.
//
// Other libraries are compared with in bench/peers, a module of its own.
//
// Memory and CPU of processes are read from /proc: elsewhere than on Linux these metrics are absent and their bars fail.
package bench
