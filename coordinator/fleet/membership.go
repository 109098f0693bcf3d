package fleet

import (
	"slices"
	"time"

	"probity/coordinator/cluster"
	"probity/coordinator/shard"
	"probity/engine"
)

// membership says which identity owns which keys at one moment. It is immutable.
type membership struct {
	view       *cluster.View
	set        *shard.Set // all that keep a share
	usable     *shard.Set // those of them that take work now
	shares     map[string]share
	identities map[*member][]string // that have a share, of each node
	// narrow keys have no owner before: after a start, and where a former set was dropped
	startDelayEnd time.Time
	joinsAt       time.Time // when identities that wait join the set; zero: none waits
	quarantines   quarantines
	// provider at which an identity is quarantined, "" for the others -> the set that shares it; nil: all
	wideSets   map[string]*shard.Set
	formerSets []formerSet   // replaced a moment ago, oldest first
	replaced   chan struct{} // closed when there is a later membership
}

// share is one identity of the set.
type share struct {
	node   *member
	at     uint16 // of the identities of its node
	usable bool
}

// formerSet is a set whose owners may still be closing connections.
type formerSet struct {
	set          *shard.Set
	recentlyUsed map[string]bool // identities that were at work in the last minute
	neverAsked   map[string]bool // identities whose node had contacted no receiver, for this process or another
	closedAt     time.Time
}

// availableAt returns the time at which another source may take a route that an identity owned in the set, for jobs:
// when that one has closed its connections and, if it was at work to the end, when its per-minute budget has expired.
// Zero if it never contacted a receiver.
func (f *formerSet) availableAt(was shard.Identity) time.Time {
	if f.neverAsked[was.Name] {
		return time.Time{}
	}
	if f.recentlyUsed[was.Name] {
		return f.closedAt.Add(time.Minute - handover)
	}
	return f.closedAt
}

// maxFormerSets bounds the former sets of a membership. The oldest is dropped first, and all narrow routes wait as long
// as its own would have: it would take as many departures, one by one within a minute.
const maxFormerSets = 16

// joinInterval, times the former sets, is the time between a change of the set and the next identity that joins. So
// joins are together where there are many, and never need more than maxFormerSets in a minute.
const joinInterval = time.Minute / (maxFormerSets * (maxFormerSets - 1) / 2)

// nextJoin returns the time at which identities may join the set.
func nextJoin(former []formerSet) time.Time {
	if len(former) == 0 {
		return time.Time{}
	}
	replacedAt := former[len(former)-1].closedAt.Add(-handover)
	return replacedAt.Add(time.Duration(len(former)) * joinInterval)
}

// newMembership derives the membership of a view; old is the one before it, nil for none.
func newMembership(view *cluster.View, members map[string]*member, old *membership, now time.Time) *membership {
	r := &membership{view: view, quarantines: quarantines{}, shares: map[string]share{},
		identities: map[*member][]string{}, replaced: make(chan struct{})}
	if old != nil {
		r.quarantines, r.startDelayEnd = old.quarantines, old.startDelayEnd
		for _, f := range old.formerSets {
			if now.Before(f.closedAt.Add(time.Minute - handover)) {
				r.formerSets = append(r.formerSets, f)
			}
		}
	}
	joinsAt := nextJoin(r.formerSets)
	var all, usable []shard.Identity
	for i := range view.Shares {
		s := &view.Shares[i]
		if now.Before(joinsAt) && !old.has(s.Name) {
			r.joinsAt = joinsAt
			continue
		}
		m := members[s.Node]
		if m == nil {
			continue // a node whose address was never known cannot have had a stream
		}
		id := shard.Identity{Name: s.Name, Node: s.Node}
		all = append(all, id)
		if s.Usable {
			usable = append(usable, id)
		}
		r.shares[s.Name] = share{m, uint16(len(r.identities[m])), s.Usable}
		r.identities[m] = append(r.identities[m], s.Name)
	}
	if old == nil {
		r.set, r.usable = next(new(shard.Set), all), next(new(shard.Set), usable)
		return r
	}
	r.set, r.usable = next(old.set, all), next(old.usable, usable)
	r.updateWideSets()
	if old.set.Len() > 0 && !slices.Equal(old.set.All(), r.set.All()) {
		f := formerSet{old.set, map[string]bool{}, map[string]bool{}, now.Add(handover)}
		for name, s := range old.shares {
			f.neverAsked[name] = s.node.fresh.Load() && !s.node.used.Load()
			f.recentlyUsed[name] = s.usable && now.Sub(time.Unix(0, s.node.lastWork.Load())) < time.Minute
		}
		r.formerSets = append(r.formerSets, f)
	}
	if n := len(r.formerSets) - maxFormerSets; n > 0 {
		r.delayNarrow(r.formerSets[n-1].closedAt.Add(time.Minute - handover))
		r.formerSets = r.formerSets[n:]
	}
	return r
}

// has reports whether an identity has a share.
func (m *membership) has(identity string) bool {
	_, ok := m.shares[identity]
	return ok
}

// delayNarrow lets narrow keys have no owner until a time, or longer.
func (m *membership) delayNarrow(until time.Time) {
	if until.After(m.startDelayEnd) {
		m.startDelayEnd = until
	}
}

// next makes the set of a view's shares, whose names are unique, that follows another.
func next(before *shard.Set, ids []shard.Identity) *shard.Set {
	s, err := before.Next(ids)
	if err != nil {
		panic("BUG: a view with " + err.Error())
	}
	return s
}

// keyOf is the key by which an address is assigned to an identity. A narrow key (a narrow route, or one domain of a
// provider with tenants) belongs to one source in the whole cluster.
func keyOf(route *engine.Route, a engine.Address) (k shard.Key, narrow bool) {
	p := route.Provider
	switch {
	case p == nil || p.Kind == engine.KindNarrow:
		return shard.Route(route.Key), true
	case p.Kind == engine.KindWide && slices.Contains(p.ByAddress, a.Domain()):
		return shard.Address(a.Folded()), false
	}
	return shard.Domain(a.Domain()), p.Kind == engine.KindTenants
}

// ownerIn is the identity of a set that owns a key of a provider.
func ownerIn(set *shard.Set, k shard.Key, of *engine.Provider) (shard.Identity, bool) {
	return set.OwnerAmong(k, shard.Route(of.ID), of.FleetSources)
}

// owner is the identity that owns a key, and since when it may be used.
type owner struct {
	identity string
	share
	readyAt time.Time // zero: now
}

// found reports whether an identity owns the key, usable or not.
func (o *owner) found() bool { return o.identity != "" }

// ready reports whether the owner may be used now.
func (o *owner) ready() bool { return o.found() && o.usable && o.readyAt.IsZero() }

// ownerOf finds the identity that owns a key of a provider. At a wide provider it is the pinned one while that has a
// share.
func (m *membership) ownerOf(k shard.Key, narrow bool, of *engine.Provider, pinned string, now time.Time) owner {
	set := m.set
	if !narrow {
		if pinned != "" && m.has(pinned) && !m.quarantines.has(pinned, of.ID) {
			return owner{identity: pinned, share: m.shares[pinned]}
		}
		set = m.sharersOf(of)
	}
	id, ok := ownerIn(set, k, of)
	if !ok {
		return owner{}
	}
	o := owner{identity: id.Name, share: m.shares[id.Name]}
	if !narrow {
		return o
	}
	if now.Before(m.startDelayEnd) {
		o.readyAt = m.startDelayEnd
		return o
	}
	for _, f := range slices.Backward(m.formerSets) {
		if was, _ := ownerIn(f.set, k, of); was != id && now.Before(f.availableAt(was)) {
			o.readyAt = f.availableAt(was)
			break
		}
	}
	return o
}

// absentOwners are the absent nodes whose rows wait for them, and until when: then the routes go to others. A node
// without a share owns nothing that could wait.
func (m *membership) absentOwners() (nodes []string, until time.Time) {
	owns := map[string]bool{}
	for _, s := range m.shares {
		owns[s.node.name] = true
	}
	for i := range m.view.Nodes {
		n := &m.view.Nodes[i]
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

// ownerForSingle finds the identity that takes a single call now. A narrow key's former owner serves it during the
// hand-over; at a wide provider, where each source has its own budget, the next best identity does while the owner is
// absent.
func (m *membership) ownerForSingle(k shard.Key, narrow bool, of *engine.Provider, without map[*member]bool,
	now time.Time) owner {
	o := m.ownerOf(k, narrow, of, "", now)
	if narrow {
		closing := false // another source may still have connections for the key
		for i := range m.formerSets {
			f := &m.formerSets[i]
			was, ok := ownerIn(f.set, k, of)
			if !ok || !now.Before(f.closedAt) || f.neverAsked[was.Name] {
				continue
			}
			if m.shares[was.Name].usable {
				return owner{identity: was.Name, share: m.shares[was.Name]}
			}
			closing = closing || was.Name != o.identity
		}
		if !closing && !now.Before(m.startDelayEnd) {
			o.readyAt = time.Time{} // one recipient does not wait for a minute's budget
		}
		return o
	}
	if o.ready() && !without[o.node] {
		return o
	}
	var left []shard.Identity
	for _, id := range m.usable.All() {
		if !without[m.shares[id.Name].node] && !m.quarantines.has(id.Name, of.ID) {
			left = append(left, id)
		}
	}
	id, ok := ownerIn(next(m.set, left), k, of)
	if !ok {
		return owner{}
	}
	return owner{identity: id.Name, share: m.shares[id.Name]}
}
