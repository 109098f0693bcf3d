package plan

import (
	"math"
	"slices"

	"probity/engine"
)

// Load is work due: recipients and, of these, those that will be refused. Decoys count in both. Expected values may be fractions.
type Load struct{ Recipients, Refused float64 }

func (l Load) plus(m Load) Load { return Load{l.Recipients + m.Recipients, l.Refused + m.Refused} }

func (l Load) max(m Load) Load {
	return Load{max(l.Recipients, m.Recipients), max(l.Refused, m.Refused)}
}

// Expect is the load of a domain with so many addresses, of which the given share is refused: the addresses, and a decoy if one
// of them is accepted.
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
	if p.Kind != engine.KindWide || !slices.Contains(p.ByAddress, domain) { // all addresses of the domain go to one source
		r.largest = r.largest.max(due)
	}
	return true
}

// AddUnrouted adds the load of a domain before its MX hosts are known, as when a list is accepted. A domain that is no consumer
// domain of the table is assumed to have its own route at an unknown host.
func (t *Tally) AddUnrouted(table *engine.Table, domain string, due Load) bool {
	for _, p := range table.Providers {
		if slices.Contains(p.ByAddress, domain) {
			return t.Add(&engine.Route{Fact: engine.FactMX, Key: p.ID, Provider: p}, domain, due)
		}
	}
	return t.Add(&engine.Route{Fact: engine.FactMX, Key: domain, Provider: table.Unknown}, domain, due)
}
