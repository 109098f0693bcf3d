package prober

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"probity/prober/source"
	"probity/prober/wire"
)

// ActiveSources lists the sources that take queues.
func (p *Prober) ActiveSources() []source.Identity {
	ids := make([]source.Identity, len(p.sources.List))
	for i, src := range p.sources.List {
		ids[i] = src.Identity
	}
	return ids
}

// Bounds of a window: fewer rows would leave sessions without work, more would only wait here.
const (
	minWindow = wire.MaxRows / 64 // for each source
	maxWindow = 8 * wire.MaxRows
)

// Window returns how many rows of a class this node should have: about what its budgets allow in a minute. A class is a
// provider, a route, or many routes with few rows each, and after a # the job.
func (p *Prober) Window(class string) int {
	table := p.env.Table.Load()
	class, _, _ = strings.Cut(class, "#")
	prov, sources := table.Provider(class), 1
	switch {
	case prov != nil:
		sources = prov.Sources(len(p.sources.List))
	case class == "tail":
		return maxWindow
	default:
		prov = table.Unknown
	}
	return max(wire.RowsPerMinute(prov.Limits, sources, maxWindow), sources*minWindow)
}

// Status is this node's load, budget use and the state of its sources.
func (p *Prober) Status() wire.Status {
	now := time.Now()
	s := wire.Status{Sessions: p.env.Slots.InUse(), Rows: int(p.rows.Load()), Recipients: p.env.Metrics.Sent.Load(),
		Answered:   p.metrics.answered.Load(),
		Identities: make([]wire.IdentityStatus, len(p.sources.List)), Counters: p.metrics.publishedCounters()}
	for i, src := range p.sources.List {
		s.Identities[i] = wire.IdentityStatus{Name: src.Name, State: sourceState(src, now)}
	}
	for _, q := range p.allQueues() {
		s.ReadyQueues++
		of := &wire.IdentityStatus{} // a source that takes no queues has no entry
		if i := slices.Index(p.sources.List, q.Source); i >= 0 {
			of = &s.Identities[i]
		}
		// a source that takes a narrow route over must know it
		if used := q.AddToStatus(of, now); used > 0 && !q.Provider.Shared() {
			s.BudgetUses = append(s.BudgetUses, wire.BudgetUse{Route: wire.RouteID(q.Key.Route), Egress: q.Key.Source,
				Used: used})
		}
	}
	slices.SortFunc(s.BudgetUses, func(a, b wire.BudgetUse) int { return cmp.Compare(b.Used, a.Used) })
	s.BudgetUses = s.BudgetUses[:min(len(s.BudgetUses), wire.MaxBudgetUses)]
	return s
}

// sourceState is the state of a source in one word.
func sourceState(src *source.Source, now time.Time) string {
	switch {
	case src.AwaitingTrial(now):
		return wire.StateQuarantined
	case src.Quarantined(now):
		return wire.StateTrial
	case src.IsDown():
		return "down"
	}
	return "ok"
}

// Sources returns how many sources take queues.
func (p *Prober) Sources() int { return len(p.sources.List) }
