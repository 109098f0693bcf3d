// Package facade answers the requests of other verifiers' clients, in the shapes that those clients know.
//
// Invariants:
//  1. A request becomes POST /v1/verify/single or GET /v1/credits of its key, and is answered by that route: keys,
//     limits, credits and verdicts are decided there and nowhere else. Cookies are dropped, so a session never counts.
//  2. A vendor's words for a good or a bad address stand only for VALID and INVALID. What its vocabulary cannot
//     express is its word for unknown, and so is the reason of a verdict that this package does not know.
//  3. A field that Probity knows nothing about is null or left out, never made up.
package facade
