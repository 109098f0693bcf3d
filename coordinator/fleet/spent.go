package fleet

import (
	"sync"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// What each source has used of the hour of each narrow route, as its node last said. It is told to the source that takes the route
// over, so that the receiver's hour is one, whichever source asks. Of a lost node, what it was sent and did not answer counts as
// used too. After a start, the hour of a source that had a share and has not reported yet counts as used up; in a pretend internet
// for as much shorter as its speed-up is high, for there no source comes near an hour's budget.

// maxSpents bounds the routes that are remembered. Where there are more, those that come last begin a fresh hour when they move.
const maxSpents = 200_000

// spents is the tally. Safe for concurrent use.
type spents struct {
	mu     sync.Mutex // guards what follows
	routes map[uint64][]spent

	before  *shard.Set      // which identities had a share when the process before this one ended; nil for none
	unheard map[string]bool // of these, those that have said nothing since
	forgot  time.Time       // when what they used before is over an hour old
}

// spent is one source's part of a route's hour. Few sources ever have one.
type spent struct {
	identity string
	used     int
	at       time.Time // when it was last said
}

// said takes what a node says of its sources: all of it, when there are fewer than it may tell.
func (s *spents) said(status wire.Status, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range status.Identities {
		delete(s.unheard, status.Identities[i].Name)
	}
	for _, one := range status.Spent {
		s.put(one.Route, one.Egress, one.Used, now)
	}
}

// put sets a source's part. The mutex is held.
func (s *spents) put(route uint64, identity string, used int, now time.Time) {
	if s.routes == nil {
		s.routes = map[uint64][]spent{}
	}
	of := s.routes[route]
	for i := range of {
		if of[i].identity == identity {
			of[i].used, of[i].at = used, now
			return
		}
	}
	if len(of) == 0 && len(s.routes) >= maxSpents {
		return
	}
	s.routes[route] = append(of, spent{identity, used, now})
}

// lost counts a row that a source was sent and has not answered as a refusal, up to the limit that it keeps to.
func (s *spents) lost(route *engine.Route, identity string, now time.Time) {
	limit := route.Provider.Limits.RefusalsPerHour
	if limit == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, used := wire.RouteID(route.Key), 0
	for _, one := range s.routes[id] {
		if one.identity == identity {
			used = one.used
		}
	}
	s.put(id, identity, min(used+1, limit), now)
}

// elsewhere is what all but one source have used of a narrow route's hour. At other providers each source has an hour of its own.
func (s *spents) elsewhere(route *engine.Route, but string, now time.Time) (e wire.Elsewhere) {
	if route.Provider.Shared() {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.routes[wire.RouteID(route.Key)] {
		if left := one.at.Add(time.Hour).Sub(now); one.identity != but && left > 0 {
			e.Used += one.used
			e.Left = max(e.Left, left)
		}
	}
	if limit := route.Provider.Limits.RefusalsPerHour; limit > 0 && s.silent(route, but, now) {
		e.Used, e.Left = e.Used+limit, max(e.Left, s.forgot.Sub(now))
	}
	return e
}

// silent reports a route whose owner before the start was another, which has not reported since. The mutex is held.
func (s *spents) silent(route *engine.Route, but string, now time.Time) bool {
	if s.before == nil || len(s.unheard) == 0 || !now.Before(s.forgot) {
		return false
	}
	id, ok := s.before.Owner(shard.Route(route.Key))
	return ok && id.Name != but && s.unheard[id.Name]
}

// recall notes which identities had a share when the process before this one ended, and until when that matters.
func (s *spents) recall(ids []shard.Identity, until time.Time) {
	set, err := shard.New(ids)
	if err != nil {
		return // no such set was ever in use
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.forgot, s.unheard = set, until, map[string]bool{}
	for _, id := range ids {
		s.unheard[id.Name] = true
	}
}

// forget drops what is over an hour old.
func (s *spents) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, of := range s.routes {
		kept := of[:0]
		for _, one := range of {
			if now.Sub(one.at) < time.Hour {
				kept = append(kept, one)
			}
		}
		if s.routes[id] = kept; len(kept) == 0 {
			delete(s.routes, id)
		}
	}
}

// hearSpent takes what live nodes say of their budgets.
func (f *Fleet) hearSpent(now time.Time) {
	for _, m := range f.all() {
		if m.client.State().Live {
			f.spent.said(m.client.Status(), now)
		}
	}
	f.spent.forget(now)
}

// writeOff counts rows of narrow routes that a lost node has not answered as used of its budgets.
func (f *Fleet) writeOff(p *part, home []wire.Result) {
	lost := make(map[uint32]bool, len(home))
	for i := range home {
		lost[home[i].Row] = true
	}
	now := time.Now()
	for i := range p.batch.Rows {
		row := &p.batch.Rows[i]
		if lost[row.Number] && !row.Route.Provider.Shared() {
			f.spent.lost(row.Route, p.owner.identity, now)
		}
	}
}

// tell puts what others have used of a narrow route into the batch that brings its rows to a source.
func (s *spents) tell(b *wire.Batch, route *engine.Route, now time.Time) {
	e := s.elsewhere(route, b.Egress, now)
	if e.Used == 0 {
		return
	}
	if b.Elsewhere == nil {
		b.Elsewhere = map[string]wire.Elsewhere{}
	}
	b.Elsewhere[route.Key] = e
}
