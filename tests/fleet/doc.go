// Package fleet has tests of whole fleets in virtual time: a coordinator, nodes and the simulated internet in one
// synctest bubble, where everything is real but sockets, files and the clock.
package fleet
