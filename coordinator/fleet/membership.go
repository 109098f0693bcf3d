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
	view          *cluster.View
	set           *shard.Set // all that keep a share
	usable        *shard.Set // those of them that take work now
	shares        map[string]share
	startDelayEnd time.Time // narrow keys have no owner before
	quarantines   quarantines
	wideSets      map[string]*shard.Set // provider at which an identity is quarantined, "" for the others -> the set that shares it; nil: all
	formerSets    []formerSet           // replaced a moment ago, oldest first
	replaced      chan struct{}         // closed when there is a later membership
}

// share is one identity of the set.
type share struct {
	node   *member
	usable bool
}

// formerSet is a set whose owners may still be closing connections.
type formerSet struct {
	set          *shard.Set
	recentlyUsed map[string]bool // identities that were at work in the last minute
	neverAsked   map[string]bool // identities whose node had contacted no receiver
	closedAt     time.Time
}

// newFormerSet makes the former set of a membership that is replaced now.
func newFormerSet(old *membership, now time.Time) formerSet {
	f := formerSet{old.set, map[string]bool{}, map[string]bool{}, now.Add(handover)}
	for name, s := range old.shares {
		f.neverAsked[name] = s.node.neverAsked()
		f.recentlyUsed[name] = s.usable && now.Sub(time.Unix(0, s.node.lastWork.Load())) < time.Minute
	}
	return f
}

// availableAt is when another source may take a route that an identity owned in the set, for jobs: when that one has closed its
// connections and, if it was at work to the end, when its per-minute budget has expired. Zero if it never contacted a receiver.
func (f *formerSet) availableAt(was shard.Identity) time.Time {
	if f.neverAsked[was.Name] {
		return time.Time{}
	}
	if f.recentlyUsed[was.Name] {
		return f.closedAt.Add(time.Minute - handover)
	}
	return f.closedAt
}

// maxFormerSets bounds the former sets of a membership: the oldest is dropped first.
const maxFormerSets = 16

// newMembership derives the membership of a view; old is the one before it, nil for none.
func newMembership(view *cluster.View, members map[string]*member, old *membership, now time.Time) *membership {
	r := &membership{view: view, shares: map[string]share{}, replaced: make(chan struct{})}
	var all, usable []shard.Identity
	for i := range view.Shares {
		s := &view.Shares[i]
		m := members[s.Node]
		if m == nil {
			continue // a node whose address was never known cannot have had a stream
		}
		id := shard.Identity{Name: s.Name, Node: s.Node}
		all = append(all, id)
		if s.Usable {
			usable = append(usable, id)
		}
		r.shares[s.Name] = share{m, s.Usable}
	}
	r.set, r.usable = mustSet(all), mustSet(usable)
	if old != nil {
		r.quarantines = old.quarantines
		r.updateWideSets()
		r.formerSets = old.recentFormerSets(now)
		if old.set.Len() > 0 && !slices.Equal(old.set.All(), r.set.All()) {
			r.formerSets = append(r.formerSets, newFormerSet(old, now))
		}
		r.formerSets = r.formerSets[max(0, len(r.formerSets)-maxFormerSets):]
	}
	return r
}

// mustSet makes a set of a view's shares, whose names are unique.
func mustSet(ids []shard.Identity) *shard.Set {
	s, err := shard.New(ids)
	if err != nil {
		panic("BUG: a view with " + err.Error())
	}
	return s
}

func (r *membership) recentFormerSets(now time.Time) []formerSet {
	var recent []formerSet
	for _, f := range r.formerSets {
		if now.Before(f.closedAt.Add(time.Minute - handover)) {
			recent = append(recent, f)
		}
	}
	return recent
}

// keyOf is the key by which an address is assigned to an identity. A narrow key (a narrow route, or one domain of a provider with
// tenants) belongs to one source in the whole cluster.
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

// found reports that an identity owns the key, usable or not.
func (o *owner) found() bool { return o.identity != "" }

// ready reports that the owner may be used now.
func (o *owner) ready() bool { return o.found() && o.usable && o.readyAt.IsZero() }

// ownerOf finds the identity that owns a key of a provider. At a wide provider it is the pinned one while that has a share.
func (r *membership) ownerOf(k shard.Key, narrow bool, of *engine.Provider, pinned string, now time.Time) owner {
	set := r.set
	if !narrow {
		set = r.sharersOf(of)
	}
	if s, ok := r.shares[pinned]; ok && !narrow && !r.quarantines.has(pinned, of.ID) {
		return owner{identity: pinned, share: s}
	}
	id, ok := ownerIn(set, k, of)
	if !ok {
		return owner{}
	}
	o := owner{identity: id.Name, share: r.shares[id.Name]}
	if !narrow {
		return o
	}
	if now.Before(r.startDelayEnd) {
		o.readyAt = r.startDelayEnd
		return o
	}
	for i := len(r.formerSets) - 1; i >= 0; i-- {
		f := &r.formerSets[i]
		if was, _ := ownerIn(f.set, k, of); was != id && now.Before(f.availableAt(was)) {
			o.readyAt = f.availableAt(was)
			break
		}
	}
	return o
}

// stillClosing reports that another source may still have connections for the key.
func (r *membership) stillClosing(k shard.Key, of *engine.Provider, identity string, now time.Time) bool {
	for i := range r.formerSets {
		f := &r.formerSets[i]
		if was, ok := ownerIn(f.set, k, of); ok && was.Name != identity && now.Before(f.closedAt) && !f.neverAsked[was.Name] {
			return true
		}
	}
	return false
}

// waitUntil is until when rows may wait for absent owners: until others have taken their shares and may start. Zero if no rows wait.
func (r *membership) waitUntil() (until time.Time) {
	if r.startDelayEnd.After(until) {
		until = r.startDelayEnd
	}
	for _, f := range r.formerSets {
		if f.closedAt.After(until) {
			until = f.closedAt
		}
	}
	if _, at := r.absentOwners(); at.After(until) {
		until = at
	}
	return until
}

// ownerForSingle finds the identity that takes a single call now. A narrow key's former owner serves it during the hand-over; at a
// wide provider, where each source has its own budget, the next best identity does while the owner is absent.
func (r *membership) ownerForSingle(k shard.Key, narrow bool, of *engine.Provider, without map[*member]bool, now time.Time) owner {
	o := r.ownerOf(k, narrow, of, "", now)
	if narrow {
		for i := range r.formerSets {
			f := &r.formerSets[i]
			if was, ok := ownerIn(f.set, k, of); ok && now.Before(f.closedAt) && !f.neverAsked[was.Name] && r.shares[was.Name].usable {
				return owner{identity: was.Name, share: r.shares[was.Name]}
			}
		}
		if !now.Before(r.startDelayEnd) && !r.stillClosing(k, of, o.identity, now) {
			o.readyAt = time.Time{} // one recipient does not wait for a minute's budget
		}
		return o
	}
	if o.ready() && !without[o.node] {
		return o
	}
	var left []shard.Identity
	for _, id := range r.usable.All() {
		if !without[r.shares[id.Name].node] && !r.quarantines.has(id.Name, of.ID) {
			left = append(left, id)
		}
	}
	id, ok := mustSet(left).Owner(k)
	if !ok {
		return owner{}
	}
	return owner{identity: id.Name, share: r.shares[id.Name]}
}
