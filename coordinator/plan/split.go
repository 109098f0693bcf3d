package plan

import (
	"slices"

	"probity/engine"
)

// busiest is the load of the busiest source at the receiver, at best: an even part, but never less than the largest load that
// cannot be split.
func (r *receiver) busiest(sources int) Load {
	n := float64(r.provider.Sources(sources))
	return Load{r.total.Recipients / n, r.total.Refused / n}.max(r.largest)
}

// spreadsAddresses reports a domain whose addresses are spread over the sources. Any other domain has one source.
func spreadsAddresses(p *engine.Provider, domain string) bool {
	return p.Kind == engine.KindWide && slices.Contains(p.ByAddress, domain)
}
