package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"probity/prober/wire/timing"
)

// The times of a node's absence.
const (
	KeepShare = timing.KeepShare // a missing node keeps its share
	forget    = time.Hour        // a node that is gone is shown
)

// MaxNodes bounds the nodes that are known at one time.
const MaxNodes = 1024

// Stream is what a coordinator's stream to a node says.
type Stream struct {
	Live       bool
	Usable     bool // live, or broken so shortly that its work goes on
	Draining   bool
	Version    string
	Identities []Identity
	Problem    string
}

// book is what has been heard of the nodes, and derives views from it. It is pure: now comes from outside.
type book struct {
	nodes   map[string]*entry
	rivals  map[string]string // other coordinators: name -> address
	claims  map[string]string // identity -> the node that has it
	problem string
}

// entry is what was heard of one node.
type entry struct {
	name    string
	meta    meta
	gossip  string // address; "" when gossip does not have it
	stream  Stream
	lost    time.Time // when the stream ended; zero where there never was one or it lives
	dropped time.Time // when gossip lost it, or first heard of it without a stream
	since   time.Time // of the present state
	state   State
}

func newBook() *book {
	return &book{nodes: map[string]*entry{}, rivals: map[string]string{}, claims: map[string]string{}}
}

// node finds or makes an entry; nil when there are too many.
func (b *book) node(name string, now time.Time) *entry {
	e := b.nodes[name]
	if e == nil && len(b.nodes) < MaxNodes {
		e = &entry{name: name, since: now, dropped: now}
		b.nodes[name] = e
	}
	return e
}

// recall notes a node that had a share a while ago and is missing now.
func (b *book) recall(name, listen string, identities []Identity, now time.Time) {
	if e := b.node(name, now); e != nil && !e.stream.Live && len(e.stream.Identities) == 0 {
		e.lost, e.stream.Identities = now, identities
		if e.gossip == "" {
			e.meta = meta{Protocol: Protocol, Role: RoleProber, Listen: listen}
		}
	}
}

// joined notes what gossip says of a node. False: there are too many.
func (b *book) joined(name, address string, m meta, now time.Time) bool {
	if m.Role != RoleProber {
		b.rivals[name] = address
		return true
	}
	e := b.node(name, now)
	if e == nil {
		return false
	}
	e.gossip, e.meta = address, m
	return true
}

// left notes that gossip has lost a node.
func (b *book) left(name string, now time.Time) {
	delete(b.rivals, name)
	if e := b.nodes[name]; e != nil {
		e.gossip, e.dropped = "", now
	}
}

// streamed notes what a stream says. A node that gossip never named has none.
func (b *book) streamed(name string, s Stream, now time.Time) {
	e := b.nodes[name]
	if e == nil {
		return
	}
	switch {
	case s.Live:
		e.lost = time.Time{}
	case e.stream.Live:
		e.lost = now
	}
	if len(s.Identities) == 0 && !s.Live {
		s.Identities = e.stream.Identities
	}
	e.stream = s
}

// view applies the passing of time and derives the View.
func (b *book) view(now time.Time) *View {
	v := &View{Problem: b.problem}
	b.forget(now)
	for _, e := range b.nodes {
		if s := e.present(now); s != e.state {
			e.state, e.since = s, now
		}
	}
	b.settleClaims()
	for _, e := range b.nodes {
		n, keeps := b.show(e)
		v.Nodes = append(v.Nodes, n)
		if keeps {
			for _, id := range n.Identities {
				v.Shares = append(v.Shares, Share{id, n.Name, n.Usable})
			}
		}
	}
	for name, address := range b.rivals {
		v.Rivals = append(v.Rivals, name+" at "+address)
	}
	slices.SortFunc(v.Nodes, func(x, y Node) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(v.Shares, func(x, y Share) int { return strings.Compare(x.Name, y.Name) })
	slices.Sort(v.Rivals)
	return v
}

// present is the state of a node now.
func (e *entry) present(now time.Time) State {
	switch {
	case e.stream.Draining && (e.stream.Live || now.Sub(e.lost) < KeepShare):
		return Draining
	case e.stream.Live:
		return Alive
	case !e.lost.IsZero() && now.Sub(e.lost) < KeepShare:
		return Suspect
	case e.lost.IsZero() && e.gossip != "":
		return Suspect // known, not attached to yet
	}
	return Gone
}

// keeps reports that the node has a share: it is or was lately attached to.
func (e *entry) keeps() bool {
	return e.state == Alive || e.state == Suspect && !e.lost.IsZero()
}

// forget drops nodes that are long gone.
func (b *book) forget(now time.Time) {
	for name, e := range b.nodes {
		if e.gossip == "" && !e.stream.Live && now.Sub(e.lost) >= forget && now.Sub(e.dropped) >= forget {
			delete(b.nodes, name)
		}
	}
}

// settleClaims gives each identity to the node that had it, else to the first that asks, in the order of names.
func (b *book) settleClaims() {
	for id, owner := range b.claims {
		e := b.nodes[owner]
		if e == nil || !e.keeps() || !slices.ContainsFunc(e.stream.Identities, func(i Identity) bool { return i.Name == id }) {
			delete(b.claims, id)
		}
	}
	names := make([]string, 0, len(b.nodes))
	for name := range b.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := b.nodes[name]
		if !e.keeps() || b.contested(e) != "" {
			continue
		}
		for _, id := range e.stream.Identities {
			b.claims[id.Name] = name
		}
	}
}

// contested says which identity of the node another has; empty where none.
func (b *book) contested(e *entry) string {
	seen := map[string]bool{}
	for _, id := range e.stream.Identities {
		if owner, ok := b.claims[id.Name]; ok && owner != e.name {
			return fmt.Sprintf("identity %s is node %s's; give each address to one node", id.Name, owner)
		}
		if seen[id.Name] {
			return fmt.Sprintf("two of its identities are named %s", id.Name)
		}
		seen[id.Name] = true
	}
	return ""
}

// show is the node as a View shows it, and whether it keeps a share.
func (b *book) show(e *entry) (Node, bool) {
	n := Node{Name: e.name, Gossip: e.gossip, Listen: e.meta.Listen, Version: e.meta.Version, State: e.state, Since: e.since,
		Usable: e.stream.Usable && !e.stream.Draining, Identities: slices.Clone(e.stream.Identities), Problem: e.stream.Problem}
	if e.stream.Version != "" {
		n.Version = e.stream.Version
	}
	keeps := e.keeps()
	if words := b.contested(e); keeps && words != "" {
		n.Usable, n.Problem, keeps = false, words, false
	}
	if n.Problem == "" && !e.stream.Live {
		n.Problem = "no stream"
	}
	return n, keeps
}
