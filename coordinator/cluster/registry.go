package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"probity/prober/wire/timing"
)

const (
	KeepShare   = timing.KeepShare // how long a missing node keeps its share
	forgetAfter = time.Hour        // how long a gone node is shown
)

// MaxNodes bounds the nodes that are known at one time: a fleet of a thousand, and as many again that were there in the
// last hour under other names.
const MaxNodes = 4096

// Stream is the state of a coordinator's stream to a node.
type Stream struct {
	Live       bool
	Usable     bool // live, or lost so recently that its work goes on
	Draining   bool
	Version    string
	Identities []Identity
	Problem    string
}

// registry holds what is known of the nodes, and derives views from it. It is pure: the caller passes now.
type registry struct {
	nodes   map[string]*entry
	rivals  map[string]string // other coordinators: name -> address
	owners  map[string]string // identity -> the node that has it
	problem string
}

// entry is what is known of one node.
type entry struct {
	name       string
	meta       meta
	gossip     string // address; "" if gossip does not have it
	stream     Stream
	streamLost time.Time // when the stream ended; zero if there never was one or it is live
	gossipLost time.Time // when gossip lost it, or when the entry was made
	since      time.Time // of the state
	state      State
}

func newRegistry() *registry {
	return &registry{nodes: map[string]*entry{}, rivals: map[string]string{}, owners: map[string]string{}}
}

// node finds or makes an entry; nil when there are too many.
func (r *registry) node(name string, now time.Time) *entry {
	e := r.nodes[name]
	if e == nil && len(r.nodes) < MaxNodes {
		e = &entry{name: name, since: now, gossipLost: now}
		r.nodes[name] = e
	}
	return e
}

// setGossip records what gossip says of a node; false if there are too many nodes.
func (r *registry) setGossip(name, address string, m meta, now time.Time) bool {
	if m.Role != RoleProber {
		r.rivals[name] = address
		return true
	}
	e := r.node(name, now)
	if e == nil {
		return false
	}
	e.gossip, e.meta = address, m
	return true
}

// removeGossip records that gossip has lost a node.
func (r *registry) removeGossip(name string, now time.Time) {
	delete(r.rivals, name)
	if e := r.nodes[name]; e != nil {
		e.gossip, e.gossipLost = "", now
	}
}

// setStream sets the state of a node's stream. A node that gossip never named has none.
func (r *registry) setStream(name string, s Stream, now time.Time) {
	e := r.nodes[name]
	if e == nil {
		return
	}
	switch {
	case s.Live:
		e.streamLost = time.Time{}
	case e.stream.Live:
		e.streamLost = now
	}
	if len(s.Identities) == 0 && !s.Live {
		s.Identities = e.stream.Identities
	}
	e.stream = s
}

// view applies the passing of time and derives the View.
func (r *registry) view(now time.Time) *View {
	v := &View{Problem: r.problem}
	maps.DeleteFunc(r.nodes, func(_ string, e *entry) bool {
		return e.gossip == "" && !e.stream.Live && now.Sub(e.streamLost) >= forgetAfter &&
			now.Sub(e.gossipLost) >= forgetAfter
	})
	for _, e := range r.nodes {
		if s := e.stateAt(now); s != e.state {
			e.state, e.since = s, now
		}
	}
	r.assignIdentities()
	for _, e := range r.nodes {
		n := Node{Name: e.name, Gossip: e.gossip, Listen: e.meta.Listen,
			Version: cmp.Or(e.stream.Version, e.meta.Version), State: e.state, Since: e.since,
			Usable: e.stream.Usable && !e.stream.Draining, Identities: slices.Clone(e.stream.Identities),
			Problem: e.stream.Problem}
		switch reason := r.conflict(e); {
		case !e.keepsShare():
		case reason != "":
			n.Usable, n.Problem = false, reason
		default:
			for _, id := range n.Identities {
				v.Shares = append(v.Shares, Share{id, n.Name, n.Usable})
			}
		}
		if n.Problem == "" && !e.stream.Live {
			n.Problem = "no stream"
		}
		v.Nodes = append(v.Nodes, n)
	}
	for name, address := range r.rivals {
		v.Rivals = append(v.Rivals, name+" at "+address)
	}
	slices.SortFunc(v.Nodes, func(x, y Node) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(v.Shares, func(x, y Share) int { return strings.Compare(x.Name, y.Name) })
	slices.Sort(v.Rivals)
	return v
}

// stateAt is the state of a node now.
func (e *entry) stateAt(now time.Time) State {
	switch {
	case e.stream.Draining && (e.stream.Live || now.Sub(e.streamLost) < KeepShare):
		return Draining
	case e.stream.Live:
		return Alive
	case !e.streamLost.IsZero() && now.Sub(e.streamLost) < KeepShare:
		return Suspect
	case e.streamLost.IsZero() && e.gossip != "":
		return Suspect // known, not attached to yet
	}
	return Gone
}

// keepsShare reports whether the node has a share: its stream is live or was within KeepShare.
func (e *entry) keepsShare() bool {
	return e.state == Alive || e.state == Suspect && !e.streamLost.IsZero()
}

// assignIdentities assigns each identity to the node that had it, else to the first node by name that claims it.
func (r *registry) assignIdentities() {
	maps.DeleteFunc(r.owners, func(id, owner string) bool {
		e := r.nodes[owner]
		return e == nil || !e.keepsShare() || !slices.ContainsFunc(e.stream.Identities,
			func(i Identity) bool { return i.Name == id })
	})
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		e := r.nodes[name]
		if !e.keepsShare() || r.conflict(e) != "" {
			continue
		}
		for _, id := range e.stream.Identities {
			r.owners[id.Name] = name
		}
	}
}

// conflict says which identity of the node belongs to another; empty if none.
func (r *registry) conflict(e *entry) string {
	seen := map[string]bool{}
	for _, id := range e.stream.Identities {
		if owner, ok := r.owners[id.Name]; ok && owner != e.name {
			return fmt.Sprintf("identity %s is node %s's; give each address to one node", id.Name, owner)
		}
		if seen[id.Name] {
			return fmt.Sprintf("two of its identities are named %s", id.Name)
		}
		seen[id.Name] = true
	}
	return ""
}
