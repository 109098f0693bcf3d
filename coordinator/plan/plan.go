package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"probity/engine"
)

// MaxSources bounds the fleets that a plan looks at.
const MaxSources = 10_000

// maxReceivers is how many receivers a plan names.
const maxReceivers = 10

// Plan is the least time for what a Tally holds, from so many sources.
type Plan struct {
	Sources     int
	Asked       Load
	MinTime     time.Duration
	Receivers   []Receiver // those that take longest, longest first
	MoreToHalve int        // so many more sources halve the time; 0 where none do, or there is no time to halve
}

// Receiver is what one receiver takes at least.
type Receiver struct {
	Route, Provider string // the provider's name; "other" where it is unknown
	Kind            engine.Kind
	Sources         int // that can share its work
	Due             Load
	MinTime         time.Duration
	Limit           string // the limit that binds, by its name in the table; empty where none does
	Budget          int    // its value
}

// Plan computes the least time from so many sources, at least one.
func (t *Tally) Plan(sources int) Plan {
	sources = min(max(1, sources), MaxSources)
	p := Plan{Sources: sources, Asked: t.asked, Receivers: make([]Receiver, 0, len(t.receivers))}
	for _, r := range t.receivers {
		p.Receivers = append(p.Receivers, r.plan(sources))
	}
	slices.SortFunc(p.Receivers, func(a, b Receiver) int {
		return cmp.Or(cmp.Compare(b.MinTime, a.MinTime), cmp.Compare(b.Due.Refused, a.Due.Refused), cmp.Compare(a.Route, b.Route))
	})
	if len(p.Receivers) > 0 {
		p.MinTime = p.Receivers[0].MinTime
	}
	p.Receivers = slices.Clone(p.Receivers[:min(maxReceivers, len(p.Receivers))])
	p.MoreToHalve = t.moreToHalve(sources, p.MinTime/2)
	return p
}

// moreToHalve is how many sources more bring the time down to a goal.
func (t *Tally) moreToHalve(sources int, goal time.Duration) int {
	if goal == 0 || t.slowest(MaxSources) > goal {
		return 0
	}
	low, high := sources, MaxSources // too few, and enough
	for high-low > 1 {
		if middle := (low + high) / 2; t.slowest(middle) > goal {
			low = middle
		} else {
			high = middle
		}
	}
	return high - sources
}

// slowest is the least time from so many sources.
func (t *Tally) slowest(sources int) (most time.Duration) {
	for _, r := range t.receivers {
		most = max(most, r.minTime(sources).span)
	}
	return most
}

func (r *receiver) plan(sources int) Receiver {
	b := r.minTime(sources)
	return Receiver{Route: r.key, Provider: r.provider.Name, Kind: r.provider.Kind, Sources: r.provider.Sources(sources), Due: r.total,
		MinTime: b.span, Limit: b.limit, Budget: b.budget}
}

// binding is the limit that takes longest, and how long.
type binding struct {
	span   time.Duration
	limit  string
	budget int
}

// minTime is the time that the receiver takes from so many sources at least.
func (r *receiver) minTime(sources int) binding {
	return minTimeOf(&r.provider.Limits, r.busiest(sources))
}

// minTimeOf is the time that one source needs for a load.
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
		if span := windows(b.due, b.budget) * b.window; span > most.span {
			most = binding{span, b.limit, b.budget}
		}
	}
	return most
}

// windows is how many windows have to pass before the last of so many events is within a budget.
func windows(due float64, budget int) time.Duration {
	if budget == 0 || due <= 0 {
		return 0
	}
	return time.Duration(ceil(due/float64(budget)) - 1)
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

// ceil forgives what adding fractions has rounded up.
func ceil(x float64) float64 { return math.Ceil(x - 1e-6) }
