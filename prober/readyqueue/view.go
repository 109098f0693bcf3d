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

// recordActionEvery is how often a reply is recorded that asks for the same action again.
const recordActionEvery = time.Second

// recordAction records a reply that makes the queue slower. The mutex is held.
func (q *Queue) recordAction(s *session, r engine.Reply, f engine.Finding, now time.Time) {
	if q.lastAction.rule == f.Rule && now.Sub(q.lastAction.at) < recordActionEvery {
		return
	}
	text := engine.Redact(r.Text(), engine.Address{})
	for _, to := range s.group.Rcpts {
		if a, err := engine.ParseTrimmed(to.Local + "@" + to.Domain); err == nil {
			text = engine.Redact(text, a)
		}
	}
	q.lastAction = cause{at: now, host: s.hostQueue.Name, rule: f.Rule, reply: text}
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
	v.State, v.Until = q.viewState(now)
	if held := v.State == "quarantined" || v.State == "paused" || v.State == "slowed"; held {
		v.Since, v.Host, v.Rule, v.Reply = q.lastAction.at, q.lastAction.host, q.lastAction.rule, q.lastAction.reply
	}
	return v
}

// viewState is what holds the queue back, and until when where that is known. The mutex is held.
func (q *Queue) viewState(now time.Time) (string, time.Time) {
	_, d := q.budget.Room(&budget.Conn{}, budget.ShortJob, now)
	switch {
	case now.Before(q.budget.QuarantinedUntil):
		return "quarantined", q.budget.QuarantinedUntil
	case now.Before(q.hold.SendAt):
		return "paused", q.hold.SendAt
	case now.Before(q.budget.HalvedUntil):
		return "slowed", q.budget.HalvedUntil
	case d.Denied && !d.Lease:
		return "spent", d.Until
	case now.Before(q.hold.ConnectAt) && q.probes > 0:
		return "waiting", q.hold.ConnectAt
	case q.probes > 0:
		return "busy", time.Time{}
	}
	return "idle", time.Time{}
}

// RefusalsUsed is how much of the hourly budget of refusals is used or reserved.
func (q *Queue) RefusalsUsed(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	settled, reserved := q.budget.Refusals(now)
	return settled + reserved
}

// AddToStatus adds the queue to its source's status.
func (q *Queue) AddToStatus(s *wire.IdentityStatus, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.ReadyQueues++
	if now.Before(q.budget.QuarantinedUntil) {
		s.Quarantined++
		if q.Provider.Kind == engine.KindWide && !q.mayBeTrial(now) {
			s.QuarantinedAt = append(s.QuarantinedAt, q.Provider.ID)
		}
		return
	}
	if _, d := q.budget.Room(&budget.Conn{}, budget.ShortJob, now); d.Denied && !d.Lease {
		s.Exhausted++
	}
}
