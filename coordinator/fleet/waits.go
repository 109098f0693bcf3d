package fleet

import (
	"slices"
	"time"

	"probity/coordinator/cluster"
)

// A job may be quiet for a minute for a good reason: its narrow routes are owned by nodes that are away, or have another owner who
// lets them rest. Who looks at such a job finds the reason in the log.

// away are the nodes whose rows wait for them to come back, and until when they do: then the routes go to others.
// A node without a share owns nothing that could wait.
func (r *roster) away() (nodes []string, until time.Time) {
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

// tellWaits says why rows of lists rest, when that begins or changes. The mutex is held.
func (f *Fleet) tellWaits(old, next *roster, now time.Time) {
	nodes, until := next.away()
	if !slices.Equal(nodes, f.away) {
		f.away = nodes
		if len(nodes) > 0 {
			f.cfg.Log.Info("lists wait for nodes that are away, with the routes that they own", "nodes", nodes, "until", until)
		} else {
			f.cfg.Log.Info("lists wait for no node any more")
		}
	}
	if n := len(next.former); n > 0 && next.former[n-1].set == old.set {
		f.cfg.Log.Info("lists let the routes rest that have another owner now", "until", next.former[n-1].lastRested())
	}
}

// lastRested is when the last route of the set may be asked by another source.
func (f *formerSet) lastRested() time.Time {
	for _, busy := range f.busy {
		if busy {
			return f.until.Add(time.Minute - handover)
		}
	}
	return f.until
}
