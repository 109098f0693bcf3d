// Package node has tests of one node in virtual time: store, coordinator, prober, resolver and the simulated internet
// in one synctest bubble, with the shipped budgets. Everything is real but sockets, files and the clock.
//
//   - Hours of receivers take seconds. Lists that take days are those of make makespan and make tenants.
//   - A list ends with the right verdicts, in the time that the budgets allow, and no receiver's limit is exceeded.
package node
