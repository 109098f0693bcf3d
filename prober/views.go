package prober

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/store/cache"
)

var _ wire.Views = (*Prober)(nil)

// ReadyQueues implements wire.Views.
func (p *Prober) ReadyQueues() []wire.ReadyQueue {
	now := time.Now()
	var all []wire.ReadyQueue
	for _, src := range p.sources.List {
		all = appendSource(all, src, now)
	}
	for _, q := range p.allQueues() {
		all = append(all, q.View(now))
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
	return append(dst, wire.ReadyQueue{Egress: src.Name, State: "quarantined", Until: until,
		Reply: "Three routes refuse this source as blocklisted."})
}

// EndQuarantine implements wire.Views: an operator has settled it with the receiver. Used budgets stay used.
func (p *Prober) EndQuarantine(sourceName, route string) bool {
	now := time.Now()
	was := false
	for _, src := range p.sources.List {
		if route == "" && src.Name == sourceName {
			was = src.EndQuarantine(now)
			if was {
				p.resumeDelisted(src) // queues that were quarantined only for the blocklists go on as well
			}
		}
	}
	for _, q := range p.allQueues() {
		if q.Key.Source == sourceName && q.Key.Route == route {
			was = q.EndQuarantine(now)
			if was {
				p.cfg.Log.Warn("an operator ended a quarantine", "provider", q.Provider.ID, "egress", q.Key.Source)
			}
		}
	}
	return was
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
	return p.recent.Find(q, key, p.env.Table.Load()), nil
}
