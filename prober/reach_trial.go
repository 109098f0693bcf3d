package prober

import (
	"context"
	"time"

	"probity/prober/source"
)

// watch makes reachability trials for a source until it is no longer suspect.
func (p *Prober) watch(src *source.Source) {
	if !src.Health.NeedsWatch() {
		return
	}
	p.start(func(soft, _ context.Context) {
		for at, k := src.Health.NextTrial(); !at.IsZero(); at, k = src.Health.NextTrial() {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // it may be no longer suspect by now
			}
			if k.Host != "" && p.sendReachTrial(src, k) {
				continue
			}
			if !sleep(soft, 2*source.TrialGrace) { // a queue's turn
				return
			}
		}
	})
}

// sleep waits; it returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sendReachTrial connects to a host without a recipient to ask about. It returns false if it may not.
func (p *Prober) sendReachTrial(src *source.Source, k source.Reached) bool {
	now := time.Now()
	if src.Quarantined(now) {
		return false
	}
	if p.mustNotAsk(&k.Target) {
		src.Health.ForgetReached(k)
		return false
	}
	q := p.queueOf(&k.Route, src, now)
	if q == nil {
		return false
	}
	return q.SendReachTrial(k, now)
}
