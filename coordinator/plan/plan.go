package plan

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"probity/engine"
)

// MaxSources bounds the number of sources of a plan.
const MaxSources = 10_000

// maxReceivers is how many receivers a plan lists.
const maxReceivers = 10

// Plan is the least time for the load of a Tally.
type Plan struct {
	Sources     int
	Asked       Load
	MinTime     time.Duration
	Receivers   []Receiver // those that take longest, longest first
	MoreToHalve int        // how many more sources halve the time; 0 if no number does, or the time is zero
}

// Receiver is the least time of one receiver.
type Receiver struct {
	Route, Provider string // the provider's name; "other" if it is unknown
	Kind            engine.Kind
	Sources         int // that can share its work
	Due             Load
	MinTime         time.Duration
	Limit           string // the limit that determines MinTime, by its name in the table; empty if none does
	Budget          int    // value of the limit
}

// Plan computes the least time from so many sources, at least one.
func (t *Tally) Plan(sources int) Plan {
	sources = min(max(1, sources), MaxSources)
	p := Plan{Sources: sources, Asked: t.asked, Receivers: make([]Receiver, 0, len(t.receivers))}
	for _, r := range t.receivers {
		b := r.minTime(sources)
		p.Receivers = append(p.Receivers, Receiver{Route: r.key, Provider: r.provider.Name, Kind: r.provider.Kind,
			Sources: r.provider.Sources(sources), Due: r.total, MinTime: b.span, Limit: b.limit, Budget: b.budget})
	}
	slices.SortFunc(p.Receivers, func(a, b Receiver) int {
		return cmp.Or(cmp.Compare(b.MinTime, a.MinTime), cmp.Compare(b.Due.Refused, a.Due.Refused), cmp.Compare(a.Route, b.Route))
	})
	if len(p.Receivers) > 0 {
		p.MinTime = p.Receivers[0].MinTime
	}
	p.Receivers = slices.Clone(p.Receivers[:min(maxReceivers, len(p.Receivers))])
	if goal := p.MinTime / 2; goal > 0 && t.slowest(MaxSources) <= goal {
		p.MoreToHalve = sort.Search(MaxSources-sources, func(more int) bool { return t.slowest(sources+more) <= goal })
	}
	return p
}

// slowest is the least time from so many sources.
func (t *Tally) slowest(sources int) (most time.Duration) {
	for _, r := range t.receivers {
		most = max(most, r.minTime(sources).span)
	}
	return most
}

// binding is the limit that takes the longest time, and that time.
type binding struct {
	span   time.Duration
	limit  string
	budget int
}

// minTime is the least time of the receiver with so many sources: that of its busiest source, at best. That one has an even part,
// but never less than the largest load that cannot be split.
func (r *receiver) minTime(sources int) binding {
	n := float64(r.provider.Sources(sources))
	return minTimeOf(&r.provider.Limits, Load{r.total.Recipients / n, r.total.Refused / n}.max(r.largest))
}

// minTimeOf is the least time in which one source can do a load.
func minTimeOf(l *engine.Limits, due Load) (most binding) {
	for _, b := range [...]struct {
		limit  string
		due    float64
		budget int
		window time.Duration
	}{
		{"refusals_per_hour", due.Refused, l.RefusalsPerHour, time.Hour},
		{"recipients_per_minute", due.Recipients, l.RecipientsPerMinute, time.Minute},
		{"connections_per_minute", connections(l, due), l.ConnectionsPerMinute, time.Minute},
	} {
		if b.budget == 0 || b.due <= 0 {
			continue
		}
		// So many windows must pass until the budget allows the last event.
		if span := time.Duration(ceil(b.due/float64(b.budget))-1) * b.window; span > most.span {
			most = binding{span, b.limit, b.budget}
		}
	}
	return most
}

// connections is how many connections a load needs at least.
func connections(l *engine.Limits, due Load) (n float64) {
	need := func(due float64, capacity int) {
		if capacity > 0 {
			n = max(n, ceil(due/float64(capacity)))
		}
	}
	need(due.Recipients, l.RecipientsPerConnection)
	need(due.Recipients, l.RecipientsPerTransaction*l.TransactionsPerConnection)
	need(due.Refused, l.RefusalsPerConnection)
	return n
}

// ceil rounds up, but tolerates the rounding errors of sums of fractions.
func ceil(x float64) float64 { return math.Ceil(x - 1e-6) }
