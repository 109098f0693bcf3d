package fleet

import (
	"slices"
	"time"

	"probity/coordinator/cluster"
)

// A job may stand still for a minute for a good reason: its narrow routes are owned by absent nodes, or wait because their owner has
// changed. The log tells the operator the reason.

// absentOwners are the absent nodes whose rows wait for them, and until when: then the routes go to others. A node without a share
// owns nothing that could wait.
func (r *membership) absentOwners() (nodes []string, until time.Time) {
	owns := map[string]bool{}
	for _, s := range r.shares {
		owns[s.node.name] = true
	}
	for i := range r.view.Nodes {
		n := &r.view.Nodes[i]
		if n.State != cluster.Suspect || n.Usable || !owns[n.Name] {
			continue
		}
		nodes = append(nodes, n.Name)
		if at := n.Since.Add(cluster.KeepShare + handover); at.After(until) {
			until = at
		}
	}
	return nodes, until
}

// logWaits logs why rows of jobs wait, when that begins or changes. The mutex is held.
func (f *Fleet) logWaits(old, next *membership, now time.Time) {
	nodes, until := next.absentOwners()
	if !slices.Equal(nodes, f.loggedAbsent) {
		f.loggedAbsent = nodes
		if len(nodes) > 0 {
			f.cfg.Log.Info("jobs wait for absent nodes", "nodes", nodes, "until", until)
		} else {
			f.cfg.Log.Info("jobs no longer wait for absent nodes")
		}
	}
	if n := len(next.formerSets); n > 0 && next.formerSets[n-1].set == old.set {
		f.cfg.Log.Info("routes with a new owner paused", "until", next.formerSets[n-1].allAvailableAt())
	}
}

// allAvailableAt is when other sources may take every route of the set.
func (f *formerSet) allAvailableAt() time.Time {
	for _, recentlyUsed := range f.recentlyUsed {
		if recentlyUsed {
			return f.closedAt.Add(time.Minute - handover)
		}
	}
	return f.closedAt
}
