package fleet

import (
	"slices"
	"time"

	"probity/coordinator/cluster"
)

// A job may be quiet for a minute for a good reason: its narrow routes are owned by nodes that are away, or have another owner that
// makes them wait. An operator who looks at such a job finds the reason in the log.

// absentOwners are the nodes whose rows wait for them to come back, and until when they do: then the routes go to others.
// A node without a share owns nothing that could wait.
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

// logWaits says why rows of jobs wait, when that begins or changes. The mutex is held.
func (f *Fleet) logWaits(old, next *membership, now time.Time) {
	nodes, until := next.absentOwners()
	if !slices.Equal(nodes, f.loggedAbsent) {
		f.loggedAbsent = nodes
		if len(nodes) > 0 {
			f.cfg.Log.Info("lists wait for nodes that are away, with the routes that they own", "nodes", nodes, "until", until)
		} else {
			f.cfg.Log.Info("lists wait for no node any more")
		}
	}
	if n := len(next.formerSets); n > 0 && next.formerSets[n-1].set == old.set {
		f.cfg.Log.Info("lists let the routes rest that have another owner now", "until", next.formerSets[n-1].allAvailableAt())
	}
}

// allAvailableAt is when the last route of the set may be asked by another source.
func (f *formerSet) allAvailableAt() time.Time {
	for _, recentlyUsed := range f.recentlyUsed {
		if recentlyUsed {
			return f.closedAt.Add(time.Minute - handover)
		}
	}
	return f.closedAt
}
