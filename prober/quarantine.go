package prober

import (
	"time"

	"probity/prober/source"
)

// A source that is on blocklists is quarantined everywhere: it connects to no host, except for a trial connection from
// time to time. If the trial gets a reply about its recipient, the source is no longer blocklisted: its quarantine
// ends, and so do those of queues that only the blocklist caused. A quarantine at one receiver alone lasts until that
// receiver's time is over; a wide provider's rows are then asked from the other sources, each within its own budget.

// quarantineEverywhere advances all probes that wait for the source, and saves the quarantine for a restart. No lock is
// held.
func (p *Prober) quarantineEverywhere(src *source.Source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		if q.Source != src {
			continue
		}
		q.AdvanceAll(now)
	}
	p.saveQuarantine(src)
	p.watch(src, source.Delisting)
}

// saveQuarantine writes until when a source is quarantined everywhere.
func (p *Prober) saveQuarantine(src *source.Source) {
	if err := src.SaveQuarantine(p.cfg.Cache); err != nil {
		p.cfg.Log.Error("quarantine of an egress source not saved", "error", err)
	}
}

// resumeDelisted ends the quarantine of the queues that were quarantined for the blocklist. No lock is held.
func (p *Prober) resumeDelisted(src *source.Source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		if q.Source == src {
			q.EndBlocklistQuarantine(now)
		}
	}
	p.saveQuarantine(src)
}
