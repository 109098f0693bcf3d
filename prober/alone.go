package prober

import (
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// SetAlone stops this node's work, or lets it go on: a node that has lost its coordinator opens no connection and begins no
// transaction, not even for a retry of its own. What was sent is heard: at narrow routes, which another source may have next, for
// timing.HangUp, and elsewhere to its end. What somebody waits for goes on waiting.
func (p *Prober) SetAlone(alone bool) {
	now := time.Now()
	if alone {
		p.slots.close(now)
		p.afterHangUp(p.hangUpAlone)
		return
	}
	// Another source may have had a narrow route meanwhile, and what it has used of the hour is unknown until new rows come. The
	// domains of a provider with tenants may have another source now.
	for _, l := range p.allLanes() {
		if l.provider.Kind != engine.KindWide {
			p.dropUnasked(l)
		}
	}
	p.slots.close(time.Time{})
	for l := p.slots.next(); l != nil; l = p.slots.next() {
		l.kicked(now)
	}
}

// Asks lists the identities that work is sent to: those that take lanes.
func (p *Prober) Asks() []Identity {
	ids := make([]Identity, len(p.egress.list))
	for i, e := range p.egress.list {
		ids[i] = e.Identity
	}
	return ids
}

// The bounds of a window: less would starve sessions, more would only wait here.
const (
	leastWindow = wire.MaxRows / 64
	mostWindow  = 8 * wire.MaxRows
)

// Window is how many rows of a class are worth having here: about what its budgets allow in a minute, were half of them
// refused. A class is a provider, a route, or many routes with few rows each, and after an @ the identity that asks and the job.
func (p *Prober) Window(class string) int {
	table := p.table.Load()
	class, _, one := strings.Cut(class, "@")
	prov, sources := table.Provider(class), 1
	if prov != nil && !one {
		sources = prov.Sources(len(p.egress.list))
	}
	if prov == nil {
		prov = table.Unknown
		if class == "tail" {
			return mostWindow
		}
	}
	rows := mostWindow
	if n := prov.Limits.RecipientsPerMinute; n > 0 {
		rows = min(rows, n*sources)
	}
	if n := prov.Limits.RefusalsPerHour; n > 0 {
		rows = min(rows, 2*n*sources) // an hour's budget may be spent in a burst
	}
	return max(rows, leastWindow)
}

// Status is how this node fares.
func (p *Prober) Status() wire.Status {
	now := time.Now()
	s := wire.Status{Sessions: p.slots.inUse(), Rows: int(p.rows.Load()), Recipients: p.metrics.sent.Load(), Answered: p.metrics.answered.Load(),
		Identities: make([]wire.IdentityStatus, len(p.egress.list)), Meters: p.metrics.meters()}
	for i, e := range p.egress.list {
		s.Identities[i] = wire.IdentityStatus{Name: e.name, State: e.state(now)}
	}
	lanes := p.allLanes()
	s.Spent = p.spent(lanes, now)
	for _, l := range lanes {
		s.Lanes++
		i := slices.Index(p.egress.list, l.egress)
		if i < 0 {
			continue
		}
		l.note(&s.Identities[i], now)
	}
	return s
}

// state is an identity's in one word.
func (e *egress) state(now time.Time) string {
	switch {
	case e.resting(now):
		return wire.StateResting
	case e.rested(now):
		return wire.StateCanary
	case e.health.isSick():
		return "sick"
	}
	return "ok"
}

// note counts the lane in its identity's status.
func (l *lane) note(s *wire.IdentityStatus, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Lanes++
	if now.Before(l.pace.rest) {
		s.Resting++
		if l.provider.Kind == engine.KindWide && !l.mayBeCanary(now) {
			s.RestsAt = append(s.RestsAt, l.provider.ID)
		}
		return
	}
	if _, d := l.pace.room(&connPace{}, short, now); d.denied && !d.lease {
		s.Spent++
	}
}

// Sources is how many identities work is sent to.
func (p *Prober) Sources() int { return len(p.egress.list) }
