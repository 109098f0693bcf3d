// Package api serves the HTTP API exactly as openapi.yaml describes it.
//
// It handles requests, limits and permissions. It does not know how an address is verified (coordinator,
// engine) or what survives a crash (store). It opens no socket: it serves listeners that it is given.
//
// Package api/httpd serves the requests: connections, framing, deadlines, bodies, refusals. This package has the routes
// and says for each who may use it (authorize.go), what it does, and what errors of other packages mean to a client
// (codes.go).
//
// Invariants:
//  1. A handler returns an error of the package that failed, or a refusal; only codes.go and api/httpd know what that
//     is in HTTP.
//  2. A detail says what is wrong and what to do; it never repeats a key, a password or a whole address.
//  3. Permissions are checked on the path as it was sent, before the body is requested.
//  4. A key opens only routes of its scopes, and never one that needs a session.
//  5. Credits are reserved before a single verification and settled after it, whatever its result; an answer with a 5xx
//     error costs nothing.
//  6. No log line above debug level has an address, and none has a key or a password.
//  7. A Local, which asks for no key, answers only the admin routes and only its own process: it can serve no listener.
//
// The description that is served is the part for customers (api/apidocs); openapi.yaml has the whole.
//
// The dashboard (dash*.go, web/) is a client of this API with a session instead of a key; dash.go has the invariants
// of sessions.
package api
