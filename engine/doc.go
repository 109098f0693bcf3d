// Package engine knows e-mail: what an address is, where its mail goes, what a server's reply means, and what all of
// that together proves. It is pure: no I/O, no clock, no log, no goroutine, no package state.
package engine
