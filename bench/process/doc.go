// Package process starts the processes of a measurement, watches and ends them, and says what they have used.
//
// Invariants:
//  1. It ends only processes that it started, each by its own handle: with SIGTERM, and after endTimeout with SIGKILL.
//  2. A process is sampled every sampleEvery while it runs; at maxSamples every second sample is dropped and the
//     interval doubles.
//  3. CPU time is user and system time, exact once the process has ended; peak memory is VmHWM of the last sample.
//  4. Of a process's output only the last maxOutput bytes are kept; each line of its standard error is passed on once,
//     in order.
//  5. A process does not get the PROBITY_* variables of this one: only its flags count.
//  6. What the system does not tell is 0 or false, never an error: only Linux has /proc.
package process
