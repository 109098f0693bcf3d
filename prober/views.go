package prober

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/store/cache"
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
func (q *readyQueue) recordAction(s *session, r engine.Reply, f engine.Finding, now time.Time) {
	if q.lastAction.rule == f.Rule && now.Sub(q.lastAction.at) < recordActionEvery {
		return
	}
	text := engine.Redact(r.Text(), engine.Address{})
	for _, to := range s.rcpts {
		if a, err := engine.ParseTrimmed(to.Local + "@" + to.Domain); err == nil {
			text = engine.Redact(text, a)
		}
	}
	q.lastAction = cause{at: now, host: s.hostQueue.host, rule: f.Rule, reply: text}
}

var _ wire.Views = (*Prober)(nil)

// ReadyQueues implements wire.Views.
func (p *Prober) ReadyQueues() []wire.ReadyQueue {
	now := time.Now()
	var all []wire.ReadyQueue
	for _, src := range p.sources.List {
		all = appendSource(all, src, now)
	}
	for _, q := range p.allQueues() {
		all = append(all, q.view(now))
	}
	slices.SortFunc(all, func(a, b wire.ReadyQueue) int { return wire.CompareReadyQueues(&a, &b) })
	return all[:min(len(all), wire.MaxViewItems)]
}

// appendSource appends a source as all its routes, if it is quarantined everywhere.
func appendSource(dst []wire.ReadyQueue, src *source.Source, now time.Time) []wire.ReadyQueue {
	until := src.QuarantinedUntil()
	if !now.Before(until) {
		return dst
	}
	return append(dst, wire.ReadyQueue{Egress: src.Name, State: "quarantined", Until: until, Reply: "Three routes refuse this source as blocklisted."})
}

// view is the queue as people see it.
func (q *readyQueue) view(now time.Time) wire.ReadyQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.budget
	perMinute, refusals := p.Usage(now)
	v := wire.ReadyQueue{Route: q.key.route, Egress: q.key.source, Provider: q.provider.Name, Queued: q.probes,
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
func (q *readyQueue) viewState(now time.Time) (string, time.Time) {
	_, d := q.budget.Room(&budget.Conn{}, budget.ShortJob, now)
	switch {
	case now.Before(q.budget.QuarantinedUntil):
		return "quarantined", q.budget.QuarantinedUntil
	case now.Before(q.notBefore):
		return "paused", q.notBefore
	case now.Before(q.budget.HalvedUntil):
		return "slowed", q.budget.HalvedUntil
	case d.Denied && !d.Lease:
		return "spent", d.Until
	case now.Before(q.connectNotBefore) && q.probes > 0:
		return "waiting", q.connectNotBefore
	case q.probes > 0:
		return "busy", time.Time{}
	}
	return "idle", time.Time{}
}

// EndQuarantine implements wire.Views: an operator has settled it with the receiver. Used budgets stay used.
func (p *Prober) EndQuarantine(sourceName, route string) bool {
	now := time.Now()
	was := false
	for _, src := range p.sources.List {
		if route == "" && src.Name == sourceName {
			if was = src.EndQuarantine(now); was {
				p.resumeDelisted(src) // queues that were quarantined only for the blocklists go on as well
			}
		}
	}
	for _, q := range p.allQueues() {
		if q.key.source == sourceName && q.key.route == route {
			was = q.endQuarantine(now)
		}
	}
	return was
}

func (q *readyQueue) endQuarantine(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !now.Before(q.budget.QuarantinedUntil) {
		return false
	}
	q.budget.QuarantinedUntil, q.blocklisted = time.Time{}, false
	q.source.QuarantineAt(q.provider.ID, time.Time{})
	q.prober.budgetLog.RequestLease(&q.budget) // a restart must not find it again
	q.prober.cfg.Log.Warn("an operator ended a quarantine", "provider", q.provider.ID, "egress", q.key.source)
	q.dispatch(now)
	return true
}

// Traces implements wire.Views.
func (p *Prober) Traces(q wire.Query) ([]wire.Trace, error) {
	if q.Limit <= 0 || q.Limit > wire.MaxViewItems {
		q.Limit = wire.MaxViewItems
	}
	return p.traces(q)
}

// traces are the probes that match a query, the newest first, with the sources of their rules. A limit of 0 takes all.
func (p *Prober) traces(q wire.Query) ([]wire.Trace, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var key *cache.Key
	if a, err := engine.ParseTrimmed(q.Email); err == nil {
		k := p.cfg.Cache.Key(a)
		key = &k
	}
	return p.recent.Find(q, key, p.table.Load()), nil
}
