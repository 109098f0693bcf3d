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
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.budget
	perMinute, refusals := p.Usage(now)
	v := wire.ReadyQueue{Route: q.Key.Route, Egress: q.Key.Source, Provider: q.Provider.Name, Queued: q.probes,
		Connections: wire.Usage{Used: p.Open(), Limit: p.Limits.Connections},
		PerMinute:   wire.Usage(perMinute),
		Refusals:    wire.Usage(refusals)}
	v.State, v.Until = p.State(&q.hold, q.probes > 0, now)
	if held := v.State == "quarantined" || v.State == "paused" || v.State == "slowed"; held {
		v.Since, v.Host, v.Rule, v.Reply = q.lastAction.at, q.lastAction.host, q.lastAction.rule, q.lastAction.reply
	}
	return v
}

// AddToStatus adds the queue to its source's status, and returns how much of its hourly budget of refusals is used or reserved.
func (q *Queue) AddToStatus(s *wire.IdentityStatus, now time.Time) (refusals int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, usage := q.budget.Usage(now)
	s.ReadyQueues++
	if now.Before(q.budget.QuarantinedUntil) {
		s.Quarantined++
		if q.Provider.Kind == engine.KindWide && !q.mayBeTrial(now) {
			s.QuarantinedAt = append(s.QuarantinedAt, q.Provider.ID)
		}
		return usage.Used
	}
	if _, d := q.budget.Room(&budget.Conn{}, budget.ShortJob, now); d.Denied && !d.Lease {
		s.Exhausted++
	}
	return usage.Used
}
