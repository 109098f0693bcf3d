// Package api is the service as HTTP: requests in, answers out, by openapi.yaml to the letter.
//
// It knows requests, statuses, limits and who may do what. It refuses to know how an address is verified (coordinator,
// engine) and what survives a crash (store). It opens no socket: it serves listeners that it is given.
//
// # The way of a request
//
// listener (connections per address) -> header -> admit (path as it was sent, method, media type, length, key, limit) ->
// handler (body, work) -> answer. admit runs before the first byte of a body is asked for, so that "Expect:
// 100-continue" can be refused without it; what it found is kept on the request and never done twice.
//
// Invariants:
//  1. Only codes.go knows HTTP statuses. A handler returns an error of the package that failed, or a refusal of ours.
//  2. The body of every answer that is not a success is {"detail": "..."} and nothing else, whatever wrote it: handler,
//     parser, connection limit or a recovered panic. A detail never repeats a key, a password or a whole address.
//  3. Routes are matched, and rights are checked, on the path as it was sent: "/v1//credits", "/x/../v1/credits" and
//     "/v1/%63redits" are no paths of ours.
//  4. No body is held in memory but those of JSON requests, 64 KiB at most; every other body is read as a stream under a
//     limit of bytes and of time.
//  5. A connection whose request was not read to its end is closed: what is left of a body is never read as a request.
//  6. Credits are reserved before the work of a single verification and settled after it, whatever comes of it; an answer
//     that is an error of ours has cost nothing.
//  7. A detail says what is wrong and what to do. A name that is unknown is passed over, in a query too, unless it is a known one
//     misspelt.
//  8. An address appears in no log line above debug level, and neither key nor password in any.
//
// What is served of the description is the part of customers (published.go); openapi.yaml has the whole.
//
// The dashboard (dash*.go, web/) is a client of this API that shows a session instead of a key; dash.go says what
// holds of sessions.
package api
