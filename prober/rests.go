package prober

import (
	"context"
	"encoding/binary"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A source that blocklists name rests everywhere: it asks nothing, except on one connection in a while, the canary. When a receiver
// answers the canary about its recipient, the source is off the lists, and all goes on as before, also in lanes that rested only
// because of the list. A source rests at one receiver alone until the receiver's time is over; a wide provider's rows are then
// asked from the other sources, each of which keeps to a budget of its own.

// canaryRest is how often a source that rests everywhere is tried.
const canaryRest = time.Hour

// resting reports a source that is not to be used: it rests everywhere, and it is not time for its canary.
func (e *egress) resting(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.rests) && now.Before(e.canary)
}

// rested reports a source that rests everywhere, be it time for its canary or not.
func (e *egress) rested(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.rests)
}

// open reports that a provider may be asked from this source.
func (e *egress) open(provider string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.rests) {
		return !now.Before(e.canary) // a lane that a blocklist made rest may take the canary
	}
	return !now.Before(e.restsAt[provider])
}

// restAt notes that a wide provider wants no more of the source for a time. Bounded by the providers of the table.
func (e *egress) restAt(provider string, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.restsAt == nil {
		e.restsAt = map[string]time.Time{}
	}
	e.restsAt[provider] = until
}

// tryAt is when a connection may be tried, if not now; of a source that rests, who is let go is the canary, and that tells when the
// next may go. Such a source is not asked whether it is well before it is the canary's time: its canary is for the lists that name
// it, and no knock shall take its place.
func (e *egress) tryAt(route string, knocks bool, again time.Duration, now time.Time) (wait, canary time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rest := e.restsUntil(route, knocks, now); now.Before(rest) {
		return rest, time.Time{}
	}
	if wait := e.health.tryAt(knocks, now); now.Before(wait) {
		return wait, time.Time{}
	}
	if !now.Before(e.rests) {
		return time.Time{}, time.Time{}
	}
	e.canary, e.sent = now.Add(again), ""
	return time.Time{}, e.canary
}

// restsUntil is when a route may be asked from a source that rests everywhere: at the time of its canary; a knock not before the
// rest ends. Other routes leave the canary to the errand for a moment: else those that wait at hosts which never answer would take
// one canary after the other. The mutex is held.
func (e *egress) restsUntil(route string, knocks bool, now time.Time) time.Time {
	switch {
	case knocks || !now.Before(e.rests):
		return e.rests
	case e.tended && route != e.sent && e.miss.domain != "":
		return e.canary.Add(canaryGrace)
	}
	return e.canary
}

// unspent takes back a canary for which no host was dialled, known by the time that tryAt returned, unless another was planned since:
// the next may go at the given time, from the named route if there is one, and from others a moment later, as ever.
func (e *egress) unspent(canary time.Time, route string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.canary.Equal(canary) {
		e.canary, e.sent = at, route
	}
}

// well ends the rest of a source that has been answered about a recipient. It reports whether it rested.
func (e *egress) well(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := now.Before(e.rests)
	if was {
		e.rests = time.Time{}
		clear(e.votes)
	}
	return was
}

// others reports that a wide provider may be asked from another source of this node.
func (a *egresses) others(p *engine.Provider, than *egress, now time.Time) bool {
	if p.Kind != engine.KindWide {
		return false
	}
	for _, e := range a.list {
		if e != than && e.open(p.ID, now) {
			return true
		}
	}
	return false
}

// restEverywhere lets all who wait for the source go home, and remembers over a restart that it rests. No lock is held.
func (p *Prober) restEverywhere(e *egress) {
	now := time.Now()
	for _, l := range p.allLanes() {
		if l.egress != e {
			continue
		}
		l.mu.Lock()
		out := l.emptyOut(nil, now, nil)
		l.mu.Unlock()
		p.finish(l, out, now)
	}
	p.keepRest(e)
	p.lookAfter(e)
}

// keepRest writes until when a source rests everywhere.
func (p *Prober) keepRest(e *egress) {
	e.mu.Lock()
	until := e.rests
	e.mu.Unlock()
	b := cache.Budget{Name: restName(e)}
	if !until.IsZero() {
		b.State, b.Until = binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), until
	}
	if err := p.cfg.Cache.PutBudgets([]cache.Budget{b}); err != nil {
		p.cfg.Log.Error("that a source rests everywhere was not written: a restart would forget it", "error", err)
	}
}

// recallRests reads which sources rest everywhere. The canary's time is not kept: it comes an hour after a start. A source of
// which this cannot be read rests for that hour, as all its budgets by the hour count as used up.
func (p *Prober) recallRests(now time.Time) {
	for _, e := range p.egress.list {
		state, ok, err := p.cfg.Cache.Budget(restName(e))
		if err != nil {
			e.rests = now.Add(p.table.Load().Scaled(canaryRest))
			e.canary = e.rests
			p.cfg.Log.Error("whether a source rests everywhere cannot be read: it rests for an hour", "egress", e.name, "error", err)
		}
		if ok && len(state) == 8 {
			e.rests, e.canary = now.Add(time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Sub(now)), now.Add(p.table.Load().Scaled(canaryRest))
		}
	}
}

func restName(e *egress) string { return "rest " + e.name }

// revive ends the rest of a source whose canary was answered about a recipient: whatever the answer, it was not about us.
func (h *hearing) revive() {
	for _, a := range h.s.seen {
		if a.finding.Blame == engine.BlameUs || a.finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if e, p := h.s.from, h.l.prober; len(h.s.seen) > 0 && e.well(h.now) {
		p.cfg.Log.Warn("a source that rested everywhere is well again", "egress", e.name)
		p.spawn(func(context.Context, context.Context) { p.delisted(e) })
	}
}

// mayBeCanary reports a lane that rests for a public blocklist alone, when it is time to try whether its source is still on it.
// The mutex is held.
func (l *lane) mayBeCanary(now time.Time) bool {
	return l.listed && l.egress.rested(now) && !l.egress.resting(now)
}

// delisted lets the lanes go on that rested for the blocklist. No lock is held.
func (p *Prober) delisted(e *egress) {
	now := time.Now()
	for _, l := range p.allLanes() {
		l.mu.Lock()
		if l.egress == e && l.listed {
			l.listed, l.pace.rest = false, time.Time{}
			e.restAt(l.provider.ID, time.Time{})
			p.ledger.ask(&l.account)
			l.kick(now)
		}
		l.mu.Unlock()
	}
	p.keepRest(e)
}
