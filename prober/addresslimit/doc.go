// Package addresslimit limits what one egress source sends to one address, over all routes of unknown providers that
// lead there: fifty thousand vanity MX names may be one hoster.
//
// Terms: a Limit is the budget of one source and address. A Waiter is what found no room there and wants to know when
// there is some.
//
// Invariants:
//  1. Connections and recipients stay within the limit, whichever routes they belong to: looking for room and reserving
//     it are one step under the limit's lock.
//  2. A ready queue has one wait at most at a limit; a newer one replaces it.
//  3. No wake-up is missed: Wait looks for room once more after it has recorded the waiter, and room that a waiter does
//     not use is passed on to the next one.
//  4. Single calls get room first, then short and long jobs by their share.
//  5. A limit stays while it has users, is queued for a lease, or its hour is not over. It is stored under a name that
//     never changes.
//  6. No lock is held while a waiter is called. Lock order: registry before limit; ready queue before limit, never
//     before the registry.
package addresslimit
