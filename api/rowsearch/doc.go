// Package rowsearch reads the results of a job line by line for the dashboard: it finds rows by their address, and
// counts rows by provider and score.
//
// Invariants:
//  1. A search takes at most Timeout; what it found until then is returned, marked as incomplete.
//  2. At most maxSearches searches run at one time, and one of each account.
package rowsearch
