// Package split reads the upload of a running job, finds the route of each domain, answers the rows that need no SMTP,
// and makes chunks of the others.
//
// Invariants:
//  1. A row that is answered, a duplicate or blank is skipped; each other row is answered or put into one chunk in a
//     split.
//  2. Rows of a provider that many sources share, or of a route with many rows in the job, get chunks of their own; the
//     others share the tail.
//  3. Memory is bounded for any size of job: 65,536 rows wait for lookups, 24 MB of open chunks. Six jobs are split at
//     one time, not counting those that only wait for DNS answers for few rows.
//  4. A slow domain does not delay the rows of others: they are read past it, and its rows in the next pass.
//  5. While every DNS lookup fails, a failed domain is looked up again, at most three times, before its rows get
//     dns_error (unresolved.go).
//  6. A row that was deferred before this start of the job keeps its due time, attempts and egress source.
package split
