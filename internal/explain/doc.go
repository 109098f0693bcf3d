// Package explain has the commands that say what an address is, what a reply means, and where the mail of a domain
// goes.
//
// Invariants:
//  1. An explanation is that of the packages that decide: the same parsing, classification, verdict and routing as in a
//     verification.
//  2. No mail server is contacted; only a route asks the DNS, or with --admin a running server, whose answer it is
//     then.
//  3. Each line of input gives one JSON line, or an error with the line's number; bad lines fail the command at its
//     end.
package explain
