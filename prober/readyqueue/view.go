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
	_, d := p.Room(&budget.Conn{}, budget.ShortJob, now)
	switch {
	case now.Before(p.QuarantinedUntil):
		v.State, v.Until = "quarantined", p.QuarantinedUntil
	case now.Before(q.hold.SendAt):
		v.State, v.Until = "paused", q.hold.SendAt
	case now.Before(p.HalvedUntil):
		v.State, v.Until = "slowed", p.HalvedUntil
	case d.Denied && !d.Lease:
		v.State, v.Until = "spent", d.Until
	case now.Before(q.hold.ConnectAt) && q.probes > 0:
		v.State, v.Until = "waiting", q.hold.ConnectAt
	case q.probes > 0:
		v.State = "busy"
	default:
		v.State = "idle"
	}
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
