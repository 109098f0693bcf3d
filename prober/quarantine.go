package prober

import (
	"time"

	"probity/engine"
	"probity/prober/source"
)

// A source that is on blocklists is quarantined everywhere: it connects to no host, except for a trial connection from time to
// time. If the trial gets a reply about its recipient, the source is no longer blocklisted: its quarantine ends, and so do
// those of queues that only the blocklist caused. A quarantine at one receiver alone lasts until that receiver's time is over;
// a wide provider's rows are then asked from the other sources, each within its own budget.

// quarantineEverywhere advances all probes that wait for the source, and saves the quarantine for a restart. No lock is held.
func (p *Prober) quarantineEverywhere(src *source.Source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		if q.source != src {
			continue
		}
		q.mu.Lock()
		out := q.drainQueues(nil, now, nil)
		q.mu.Unlock()
		p.finish(q, out, now)
	}
	p.saveQuarantine(src)
	p.watchQuarantine(src)
}

// saveQuarantine writes until when a source is quarantined everywhere.
func (p *Prober) saveQuarantine(src *source.Source) {
	if err := src.SaveQuarantine(p.cfg.Cache); err != nil {
		p.cfg.Log.Error("quarantine of an egress source not saved", "error", err)
	}
}

// endQuarantineOnReply ends the quarantine of a source whose trial connection got a reply about a recipient that was not about
// us.
func (rh *replyHandler) endQuarantineOnReply() {
	for _, a := range rh.s.seen {
		if a.finding.Blame == engine.BlameUs || a.finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if src, p := rh.s.source, rh.q.prober; len(rh.s.seen) > 0 && src.LeaveQuarantine(rh.now) {
		p.cfg.Log.Warn("egress source no longer blocklisted", "egress", src.Name)
		p.spawn(func() { p.resumeDelisted(src) })
	}
}

// mayBeTrial reports a ready queue that is quarantined only for a public blocklist, when the trial connection of its source is
// due. The mutex is held.
func (q *readyQueue) mayBeTrial(now time.Time) bool {
	return q.blocklisted && q.source.Quarantined(now) && !q.source.AwaitingTrial(now)
}

// resumeDelisted ends the quarantine of the queues that were quarantined for the blocklist. No lock is held.
func (p *Prober) resumeDelisted(src *source.Source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		q.mu.Lock()
		if q.source == src && q.blocklisted {
			q.blocklisted, q.budget.QuarantinedUntil = false, time.Time{}
			src.QuarantineAt(q.provider.ID, time.Time{})
			p.budgetLog.RequestLease(&q.budget)
			q.dispatch(now)
		}
		q.mu.Unlock()
	}
	p.saveQuarantine(src)
}
