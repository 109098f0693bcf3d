// Package callback delivers the event bulk.finished of each finished job to the job's callback URL, and single.finished
// of each single call that is answered later to that of the call. It makes and verifies the signed links to results
// that the first has.
//
// The state store says which callbacks are due and logs the attempts. The rows come from a ResultSource, and the job's
// record from Config.Record: the package knows neither the files of a job nor the API.
//
// Invariants:
//  1. At least once: the commit that ends a job schedules the event, and it stays due until a recorded attempt says
//     otherwise; an attempt that a crash or a stop interrupts is not recorded and is made again.
//  2. Memory is constant: at most one small buffer is written ahead of what the receiver has taken.
//  3. Package outward checks the address of each attempt; redirects are not followed.
//  4. A slow receiver delays only itself: attempts are limited in total, by host and by account, and each in time.
//  5. A body has a Content-Length, and is complete only if it has that length and is, byte for byte, what was signed.
//  6. A link opens the results of one job, for a day, and not after the job has expired or its account is closed.
package callback
