// Package generators makes clients from the description that a server serves, with the generators that others use, and
// calls the server with them. It is a module of its own, so that what they need stays out of go.mod.
package generators
