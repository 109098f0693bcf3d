package prober

import (
	"context"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// The trial connection of a source that is quarantined everywhere is a delisting trial. It needs no row: rows are returned at
// once while the source is quarantined, and the next job may come hours later. The source sends a decoy (a random recipient),
// whose reply says as much about the source as any. Only if that is impossible, a row that waits a moment later is the trial.
// The decoy goes to the receivers that refused the source as blocklisted, in turn, known providers first: they reply, and a
// blocklist that they use matters. After a restart the trial goes to the receiver of the last blocked row. Without such a row
// no trial is made.

// mustNotAsk reports that the suppression list or the current provider table excludes this target.
func (p *Prober) mustNotAsk(o *delistingTrial) bool {
	return p.cfg.Suppressed(o.domain, o.hosts) || p.probingDisabled(o.route.Provider, o.hosts)
}

// probingDisabled reports that the current table excludes these hosts, or the provider that an older table gave them.
func (p *Prober) probingDisabled(was *engine.Provider, hosts []string) bool {
	t := p.table.Load()
	if was != nil {
		if now := t.Provider(was.ID); now != nil && !now.Probe {
			return true
		}
	}
	return !t.Match(hosts).Probe
}

// delistingTrialAt is a target at a host queue: its last domain. The mutex is held.
func (q *readyQueue) delistingTrialAt(hq *hostQueue) delistingTrial {
	return delistingTrial{engine.Route{Fact: engine.FactMX, Key: q.key.route, Provider: q.provider, Hosts: []string{hq.host}}, hq.domain, mxSetOf(hq.key)}
}

// trialCheckInterval is how often a watched source is checked for a trial connection that is due.
const trialCheckInterval = time.Minute

// watchQuarantine sends a source's trial connections while it is quarantined.
func (p *Prober) watchQuarantine(src *source) {
	if !src.startWatch(time.Now()) {
		return
	}
	p.spawn(func(soft, _ context.Context) {
		for at := src.nextTrial(time.Now()); !at.IsZero(); at = src.nextTrial(time.Now()) {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // a row may have been the trial, or the quarantine be over: nextTrial tells, and may end this watch
			}
			to := src.nextDelistingTrial()
			for to.domain != "" && p.mustNotAsk(&to) {
				src.dropTarget(&to)
				to = src.nextDelistingTrial()
			}
			p.sendDelistingTrial(src, to)
			if !sleep(soft, p.table.Load().Scaled(trialCheckInterval)) {
				return
			}
		}
	})
}

// sendDelistingTrial probes a decoy; no caller waits for the result.
func (p *Prober) sendDelistingTrial(src *source, to delistingTrial) {
	now, k := time.Now(), p.cfg.Cache.Keyer()
	if to.domain == "" {
		return
	}
	a, err := engine.Parse(decoyLocalPart(k, to.domain, now) + "@" + to.domain)
	if err != nil {
		return
	}
	p.startProbe(k.Key(a), &wire.SingleRequest{Address: a, Route: &to.route, Low: true, Egress: src.name}, waiter{}, 0, now)
}
