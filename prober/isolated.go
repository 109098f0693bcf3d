package prober

import (
	"time"

	"probity/engine"
	"probity/prober/wire/timing"
)

// SetIsolated stops this node's work, or lets it go on: a node that has lost its coordinator opens no connection and
// begins no transaction, not even for a retry of its own. Replies to what was sent are read: at wide providers to the
// end, elsewhere, where another source may be next, for timing.CloseTimeout. Probes with a caller stay queued.
func (p *Prober) SetIsolated(isolated bool) {
	now := time.Now()
	if isolated {
		p.env.Slots.Close(now)
		p.afterCloseTimeout(func() {
			if !p.env.Slots.ClosedFor(timing.CloseTimeout, time.Now()) {
				return
			}
			for _, q := range p.allQueues() {
				if q.Provider.Kind != engine.KindWide {
					q.EndSessions()
					q.Reset(p.inFlight.unwanted)
				}
			}
		})
		return
	}
	// Another source may have had a narrow route meanwhile, and its use of the hour is unknown until new rows come. The
	// domains of a provider with tenants may have another source now.
	for _, q := range p.allQueues() {
		if q.Provider.Kind != engine.KindWide {
			p.dropUnwanted(q)
		}
	}
	p.env.Slots.Close(time.Time{})
	p.env.Slots.WakeWaiting(now)
}
