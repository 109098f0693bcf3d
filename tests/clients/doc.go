// Package clients uses the clients of folder clients as their documents say, each against a demo: the program with its
// simulated internet.
//
//   - Every POST is answered 503 once, after the server has taken it: a client repeats it, and nothing happens twice.
//   - The connection of a large list is cut in the middle, twice: its upload goes on where it stopped.
//   - What a client says is compared with what the server says to a plain request.
//   - So are the tools of `probity mcp`, as an assistant calls them.
package clients
