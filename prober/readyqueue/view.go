package readyqueue

import (
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/wire"
)

// cause is the reply that a ready queue last acted on.
type cause struct {
	at         time.Time
	host, rule string
	reply      string // redacted
}

// View is the queue as people see it.
func (q *Queue) View(now time.Time) wire.ReadyQueue {
	l := q.lock()
	p, limitedAt := &l.budget, l.limitedAt
	perMinute, refusals := p.Usage(now)
	state, until := p.State(&l.delay, l.probes > 0, now)
	if until.IsZero() && now.Before(l.limitedUntil) {
		state, until = "exhausted", l.limitedUntil
	}
	var c cause
	if state == "quarantined" || state == "paused" || state == "slowed" {
		c = l.lastAction
	}
	v := wire.ReadyQueue{Route: l.Key.Route, Egress: l.Key.Source, Provider: l.Provider.Name, Queued: l.probes,
		State: state, Until: until, Since: c.at, Host: c.host, Rule: c.rule, Reply: c.reply,
		Connections: wire.Usage{Used: p.Open(), Limit: p.Limits.Connections},
		PerMinute:   wire.Usage(perMinute), Refusals: wire.Usage(refusals)}
	l.unlock() // the registry of address limits must not be locked while the queue is
	if limitedAt.IsValid() {
		v.Address = limitedAt.String()
		v.AddressRefusals = wire.Usage(q.env.AddressLimits.Usage(q.Key.Source, limitedAt, now))
	}
	return v
}

// AddToStatus adds the queue to its source's status, and returns how much of its hourly budget of refusals is used or
// reserved.
func (q *Queue) AddToStatus(s *wire.IdentityStatus, now time.Time) (refusals int) {
	l := q.lock()
	defer l.unlock()
	_, usage := l.budget.Usage(now)
	s.ReadyQueues++
	if now.Before(l.budget.QuarantinedUntil) {
		s.Quarantined++
		if q.Provider.Kind == engine.KindWide && l.blocked(now) {
			s.QuarantinedAt = append(s.QuarantinedAt, q.Provider.ID)
		}
		return usage.Used
	}
	if _, d := l.budget.Room(&budget.Conn{}, budget.ShortJob, now); d.Denied && !d.Lease {
		s.Exhausted++
	}
	return usage.Used
}
