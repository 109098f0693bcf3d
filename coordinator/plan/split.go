package plan

import (
	"slices"

	"probity/engine"
)

// busiest is what the busiest of so many sources has to do at the receiver, at best: an even part, but never less than what
// cannot be shared.
func (r *receiver) busiest(sources int) Load {
	n := float64(r.provider.Sources(sources))
	return Load{r.total.Recipients / n, r.total.Refused / n}.max(r.largest)
}

// spreadsAddresses reports a domain whose addresses are spread over the sources. Any other is asked from one source.
func spreadsAddresses(p *engine.Provider, domain string) bool {
	return p.Kind == engine.KindWide && slices.Contains(p.ByAddress, domain)
}
