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

// DefaultRefused is the assumed share of refused addresses.
const DefaultRefused = 0.2

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
		return cmp.Or(cmp.Compare(b.MinTime, a.MinTime), cmp.Compare(b.Due.Refused, a.Due.Refused),
			cmp.Compare(a.Route, b.Route))
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

// LeastTime is the least time in which so many sources can do a load at a provider's route, if no budget is used yet.
func LeastTime(p *engine.Provider, due Load, sources int) time.Duration {
	r := receiver{provider: p, total: due}
	return r.minTime(sources).span
}

// binding is the limit that takes the longest time, and that time.
type binding struct {
	span   time.Duration
	limit  string
	budget int
}

// minTime is the least time of the receiver with so many sources: that of its busiest source, at best. That one has
// an even part, but never less than the largest load that cannot be split.
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

// connections returns how many connections a load needs at least.
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

// Load is work due: recipients and, of these, those that will be refused. Decoys count in both. Expected values may
// be fractions.
type Load struct{ Recipients, Refused float64 }

func (l Load) plus(m Load) Load { return Load{l.Recipients + m.Recipients, l.Refused + m.Refused} }

func (l Load) max(m Load) Load {
	return Load{max(l.Recipients, m.Recipients), max(l.Refused, m.Refused)}
}

// Expect is the load of a domain with so many addresses, of which the given share is refused: the addresses, and a
// decoy if one of them is accepted.
func Expect(addresses int, refused float64) Load {
	decoy := 1 - math.Pow(refused, float64(addresses))
	return Load{float64(addresses) + decoy, float64(addresses)*refused + decoy}
}

// Tally sums the load of each receiver. It is not safe for concurrent use. The zero value is ready.
type Tally struct {
	receivers map[string]*receiver // by route key
	asked     Load                 // of all receivers
}

// receiver is the load of one route.
type receiver struct {
	key      string
	provider *engine.Provider
	total    Load
	largest  Load // of a domain that cannot be split
}

// Add adds the load of a domain, once for each domain. It reports whether the domain is probed at all.
func (t *Tally) Add(route *engine.Route, domain string, due Load) bool {
	p := route.Provider
	if !route.Fact.Routable() || !p.Probe || p.AcceptAll {
		return false
	}
	if t.receivers == nil {
		t.receivers = map[string]*receiver{}
	}
	r := t.receivers[route.Key]
	if r == nil {
		r = &receiver{key: route.Key, provider: p}
		t.receivers[route.Key] = r
	}
	r.total, t.asked = r.total.plus(due), t.asked.plus(due)
	// all addresses of the domain go to one source
	if p.Kind != engine.KindWide || !slices.Contains(p.ByAddress, domain) {
		r.largest = r.largest.max(due)
	}
	return true
}

// AddUnrouted adds the load of a domain before its MX hosts are known, as when a list is accepted. A domain that is
// no consumer domain of the table is assumed to have its own route at an unknown host.
func (t *Tally) AddUnrouted(table *engine.Table, domain string, due Load) bool {
	for _, p := range table.Providers {
		if slices.Contains(p.ByAddress, domain) {
			return t.Add(&engine.Route{Fact: engine.FactMX, Key: p.ID, Provider: p}, domain, due)
		}
	}
	return t.Add(&engine.Route{Fact: engine.FactMX, Key: domain, Provider: table.Unknown}, domain, due)
}
