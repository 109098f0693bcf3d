// Package report has what a measurement found: metrics with units, bars with their limits, and the data of the plots.
// It writes reports as JSON, as a table and as one page, reads them again, and compares them with older ones.
//
// # Invariants
//
//  1. A bar whose metric is missing is not met.
//  2. What WriteJSON wrote, ReadJSON reads, also that of an older version.
//  3. The page needs nothing but itself: no script, no address; text of a report is quoted in it.
//  4. A quantile of a Histogram is an upper bound, at most 2.2 % too high, in bounded memory.
package report
