// Package fleet presents the nodes of a cluster as one prober: it decides which node probes which address, collects the results, and
// tracks what each node has used of a receiver's budget. The invariants are at Fleet.
package fleet
