// Package httpd serves HTTP requests: connections, deadlines, framing, routes, bodies, refusals, and the metrics and
// log of each request. It knows no handler, no account and no key: the application gives it routes, each with a
// function that admits a request and one that answers it.
//
// # The path of a request
//
// listener (connections per address) -> header -> framing, route, Admit, media type and length (Call.admit) -> body ->
// Handle -> answer. Admission runs before the first byte of a body is requested, so that "Expect: 100-continue" can be
// refused without it; its result is kept with the request and it never runs twice.
//
// Invariants:
//  1. The body of every error answer is {"detail": "..."} and nothing else, whether it is from a handler, the
//     parser, the connection limit or a recovered panic.
//  2. Routes are matched on the path as it was sent: "/v1//credits", "/x/../v1/credits" and "/v1/%63redits" match no
//     route.
//  3. Only the bodies of JSON requests are held in memory, 64 KiB or what the route allows; every other body is read as
//     a stream under a limit of bytes and of time.
//  4. A connection whose request was not read to its end is closed: the rest of a body is never read as a request.
//  5. A header that proxies and servers may parse differently is refused, and its connection is closed.
//  6. A member, part or query parameter that a route does not have is refused, and so is a body of a route that takes
//     none.
//  7. Labels of metrics are routes and statuses, and the log has the route instead of the path: neither has text of a
//     client.
package httpd
