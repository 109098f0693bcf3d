// Package usage reports what an account has used: by day and key, from its ledger and its jobs, and the ledger itself
// as a file.
//
// Invariants:
//  1. What was used is what the ledger charged; a day's rows are those of the jobs that ended on it, in UTC; today has
//     those of unfinished jobs as well, as far as they have a verdict.
//  2. A report reads a bounded number of entries and jobs: of an account with more it has the newest days, and says so.
//  3. No cell of a file is read as a formula by a spreadsheet.
package usage
