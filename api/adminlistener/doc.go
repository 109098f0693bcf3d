// Package adminlistener serves what operators ask of a process without a key: metrics, profiles, debug pages and
// health.
//
// Invariants:
//
//  1. Nothing here changes the process.
//  2. No secret is shown: the configuration is masked, and so are the arguments of the command line.
package adminlistener
