// Package fleet presents the nodes of a cluster as one prober: it decides which node probes which address, collects the
// results, and tracks what each node has used of a receiver's budget.
//
// Invariants:
//  1. The rows of a narrow key (a route, or a domain of a provider with tenants) are at one node at a time.
//  2. The owner of a key is read from one immutable membership; no node is called under a lock.
//  3. A source that a wide provider has quarantined has no share of it until its node reports the end (quarantines.go).
//  4. The hourly budget of a narrow route moves with it: its owner is told what others have used (usage.go).
//  5. All nodes are told to forget an address; the Eraser stores those that were not reached, and tries again
//     (views.go).
//  6. The nodes with a share are on disk: after a restart the coordinator waits for each of them as for any missing
//     node.
//  7. Each row of a batch has exactly one result; a node that leaves returns its rows at once.
//
// When the owner of a narrow key changes, its rows in flight are returned. The new owner starts after the former one
// has closed its connections and its per-minute budget has expired.
package fleet
