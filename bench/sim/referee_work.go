package sim

import (
	"cmp"
	"slices"
)

// Work is what one source has asked of one receiver: of a provider, or of one operator's hosts of a persona.
type Work struct {
	Persona, Source string
	Cluster         int // tells operators apart; 0 for a provider
	Connections     int64
	Recipients      int64
	Refused         int64
	Denied          int64  // answered 5xx, for whatever reason: those refused, full mailboxes, punishments
	Limits          Limits // scaled by the speed-up
}

// Work tells what each source has asked of each receiver so far.
func (r *Referee) Work() []Work {
	var all []Work
	for key, m := range r.snapshot() {
		m.mu.Lock()
		all = append(all, Work{Persona: key.persona, Source: key.source.String(), Cluster: key.cluster,
			Connections: m.connections, Recipients: m.recipients, Refused: m.refused, Denied: m.denied, Limits: m.limits})
		m.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Persona, b.Persona), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Cluster, b.Cluster))
	})
	return all
}

// noted answers a recipient and counts it where the reply is a 5xx.
func (c *session) noted(cmd *command) bool {
	at := len(c.out)
	goOn := c.rcpt(cmd)
	if at > len(c.out) {
		at = 0 // what came before is on its way
	}
	if at < len(c.out) && c.out[at] == '5' {
		c.visit.meter.mu.Lock()
		c.visit.meter.denied++
		c.visit.meter.mu.Unlock()
	}
	return goOn
}
