// Package api serves the HTTP API exactly as openapi.yaml describes it.
//
// It handles requests, statuses, limits and permissions. It does not know how an address is verified (coordinator,
// engine) or what survives a crash (store). It opens no socket: it serves listeners that it is given.
//
// # The path of a request
//
// listener (connections per address) -> header -> admit (path as it was sent, method, media type, length, key, limit) ->
// handler (body, work) -> answer. admit runs before the first byte of a body is requested, so that "Expect:
// 100-continue" can be refused without it; its result is kept with the request and it never runs twice.
//
// Invariants:
//  1. Only codes.go knows HTTP statuses. A handler returns an error of the package that failed, or a refusal.
//  2. The body of every error answer is {"detail": "..."} and nothing else, whether it is from a handler, the
//     parser, the connection limit or a recovered panic. A detail never repeats a key, a password or a whole address.
//  3. Routes are matched, and permissions are checked, on the path as it was sent: "/v1//credits", "/x/../v1/credits" and
//     "/v1/%63redits" match no route.
//  4. Only the bodies of JSON requests are held in memory, 64 KiB at most; every other body is read as a stream under a
//     limit of bytes and of time.
//  5. A connection whose request was not read to its end is closed: the rest of a body is never read as a request.
//  6. Credits are reserved before a single verification and settled after it, whatever its result; an answer with a 5xx
//     error costs nothing.
//  7. A detail says what is wrong and what to do. An unknown name is ignored, in a query too, unless it is a misspelt
//     known one.
//  8. No log line above debug level has an address, and none has a key or a password.
//
// The description that is served is the part for customers (public_description.go); openapi.yaml has the whole.
//
// The dashboard (dash*.go, web/) is a client of this API with a session instead of a key; dash.go has the invariants
// of sessions.
package api
