package fleet

import (
	"slices"
	"time"

	"probity/coordinator/cluster"
	"probity/coordinator/shard"
	"probity/engine"
)

// roster says which identity owns what at one moment. It is immutable.
type roster struct {
	view     *cluster.View
	set      *shard.Set // all that keep a share
	usable   *shard.Set // those of them that take work now
	shares   map[string]share
	settled  time.Time // narrow keys have no owner before
	rests    rests
	wide     map[string]*shard.Set // the set that shares a wide provider at which an identity rests; "" for the others; nil: all
	former   []formerSet           // that had a share a moment ago, oldest first
	replaced chan struct{}         // closed when there is a later roster
}

// share is one identity of the set.
type share struct {
	node   *member
	usable bool
}

// formerSet is a set whose owners may still be hanging up.
type formerSet struct {
	set   *shard.Set
	busy  map[string]bool // identities that were at work to the end
	fresh map[string]bool // identities whose node had asked no receiver
	until time.Time
}

// formerOf is a set that is replaced now.
func formerOf(old *roster, now time.Time) formerSet {
	f := formerSet{old.set, map[string]bool{}, map[string]bool{}, now.Add(handover)}
	for name, s := range old.shares {
		f.fresh[name] = s.node.neverAsked()
		f.busy[name] = s.usable && now.Sub(time.Unix(0, s.node.worked.Load())) < time.Minute
	}
	return f
}

// rested is when a route that an identity had in the set may be asked for jobs from another source: when it has hung up, and, if it
// was at work to the end, when the minute is over of which it may have used the budget. The zero time where it never asked anyone.
func (f *formerSet) rested(was shard.Identity) time.Time {
	if f.fresh[was.Name] {
		return time.Time{}
	}
	if f.busy[was.Name] {
		return f.until.Add(time.Minute - handover)
	}
	return f.until
}

// maxFormer bounds how many sets are remembered at one time: the oldest is forgotten first.
const maxFormer = 16

// newRoster makes the roster of a view; old is the one before it, nil for none.
func newRoster(view *cluster.View, members map[string]*member, old *roster, now time.Time) *roster {
	r := &roster{view: view, shares: map[string]share{}, replaced: make(chan struct{})}
	var all, usable []shard.Identity
	for i := range view.Shares {
		s := &view.Shares[i]
		m := members[s.Node]
		if m == nil {
			continue // a node whose address was never told cannot have had a stream
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
		r.rests = old.rests
		r.spread()
		r.former = old.formerAt(now)
		if old.set.Len() > 0 && !slices.Equal(old.set.All(), r.set.All()) {
			r.former = append(r.former, formerOf(old, now))
		}
		r.former = r.former[max(0, len(r.former)-maxFormer):]
	}
	return r
}

// mustSet makes a set of a view's shares, whose names a view has made unique.
func mustSet(ids []shard.Identity) *shard.Set {
	s, err := shard.New(ids)
	if err != nil {
		panic("BUG: a view with " + err.Error())
	}
	return s
}

func (r *roster) formerAt(now time.Time) []formerSet {
	var rest []formerSet
	for _, f := range r.former {
		if now.Before(f.until.Add(time.Minute - handover)) {
			rest = append(rest, f)
		}
	}
	return rest
}

// keyOf is what of an address is owned. A narrow key belongs to one source in the whole cluster: a narrow route, or one domain of
// a provider with tenants.
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

// owner is the identity that answers for a key, and from when.
type owner struct {
	identity string
	share
	from time.Time // zero: now
}

// found reports that an identity owns the key, usable or not.
func (o *owner) found() bool { return o.identity != "" }

// ready reports that the owner may be asked now.
func (o *owner) ready() bool { return o.found() && o.usable && o.from.IsZero() }

// owner finds the identity that answers for a key of a provider. A pinned one does at a wide provider while it has a share.
func (r *roster) owner(k shard.Key, narrow bool, of *engine.Provider, pinned string, now time.Time) owner {
	set := r.set
	if !narrow {
		set = r.sharing(of)
	}
	if s, ok := r.shares[pinned]; ok && !narrow && !r.rests.at(pinned, of.ID) {
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
	if now.Before(r.settled) {
		o.from = r.settled
		return o
	}
	for i := len(r.former) - 1; i >= 0; i-- {
		f := &r.former[i]
		if was, _ := ownerIn(f.set, k, of); was != id && now.Before(f.rested(was)) {
			o.from = f.rested(was)
			break
		}
	}
	return o
}

// hangingUp reports that another source may still be asking for the key.
func (r *roster) hangingUp(k shard.Key, of *engine.Provider, identity string, now time.Time) bool {
	for i := range r.former {
		f := &r.former[i]
		if was, ok := ownerIn(f.set, k, of); ok && was.Name != identity && now.Before(f.until) && !f.fresh[was.Name] {
			return true
		}
	}
	return false
}

// awaited is until when rows may wait for owners that are away: until their shares go to others, and these may ask. The zero time,
// where rows wait for no owner.
func (r *roster) awaited() (until time.Time) {
	if r.settled.After(until) {
		until = r.settled
	}
	for _, f := range r.former {
		if f.until.After(until) {
			until = f.until
		}
	}
	if _, at := r.away(); at.After(until) {
		until = at
	}
	return until
}

// single finds the identity that is given a single at once. A narrow key's former owner goes on while it hands over; at a wide
// provider the next best does while the owner is away, for each source has a budget of its own there.
func (r *roster) single(k shard.Key, narrow bool, of *engine.Provider, without map[*member]bool, now time.Time) owner {
	o := r.owner(k, narrow, of, "", now)
	if narrow {
		for i := range r.former {
			f := &r.former[i]
			if was, ok := ownerIn(f.set, k, of); ok && now.Before(f.until) && !f.fresh[was.Name] && r.shares[was.Name].usable {
				return owner{identity: was.Name, share: r.shares[was.Name]}
			}
		}
		if !now.Before(r.settled) && !r.hangingUp(k, of, o.identity, now) {
			o.from = time.Time{} // one recipient does not wait for a minute's budget
		}
		return o
	}
	if o.ready() && !without[o.node] {
		return o
	}
	var left []shard.Identity
	for _, id := range r.usable.All() {
		if !without[r.shares[id.Name].node] && !r.rests.at(id.Name, of.ID) {
			left = append(left, id)
		}
	}
	id, ok := mustSet(left).Owner(k)
	if !ok {
		return owner{}
	}
	return owner{identity: id.Name, share: r.shares[id.Name]}
}
