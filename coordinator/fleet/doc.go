// Package fleet makes one prober of the nodes of a cluster: which node asks about which address, what comes back from each, and what
// each has used of a receiver's budget. The invariants stand at Fleet.
package fleet
