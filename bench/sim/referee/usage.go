package referee

import (
	"cmp"
	"slices"

	"probity/bench/sim/persona"
)

// SourceUsage is the use of one receiver by one source: of a provider, or of one operator's hosts of a persona.
type SourceUsage struct {
	Persona, Source string
	Cluster         int // number of the operator; 0 for a provider
	Connections     int64
	Recipients      int64
	Refused         int64
	Denied          int64          // answered 5xx for any reason: refusals, full mailboxes, throttling
	Limits          persona.Limits // scaled by the speed-up
}

// Usage returns the use of each receiver by each source so far.
func (r *Referee) Usage() []SourceUsage {
	var all []SourceUsage
	for key, m := range r.snapshot() {
		m.mu.Lock()
		all = append(all, SourceUsage{Persona: key.persona, Source: key.source.String(), Cluster: key.cluster,
			Connections: m.connections, Recipients: m.recipients, Refused: m.refused, Denied: m.denied,
			Limits: m.limits})
		m.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b SourceUsage) int {
		return cmp.Or(cmp.Compare(a.Persona, b.Persona), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Cluster, b.Cluster))
	})
	return all
}
