package prober

import (
	"context"
	"encoding/binary"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A source that is on blocklists is quarantined everywhere: it connects to no host, except for a trial connection from time to
// time. If the trial gets a reply about its recipient, the source is no longer blocklisted: its quarantine ends, and so do
// those of queues that only the blocklist caused. A quarantine at one receiver alone lasts until that receiver's time is over;
// a wide provider's rows are then asked from the other sources, each within its own budget.

// delistingTrialInterval is how often a source that is quarantined everywhere is tried.
const delistingTrialInterval = time.Hour

// awaitingTrial reports a source that must not be used now: it is quarantined everywhere, and its trial connection is not due.
func (src *source) awaitingTrial(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil) && now.Before(src.trialAt)
}

// quarantined reports a source that is quarantined everywhere, whether or not its trial connection is due.
func (src *source) quarantined(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil)
}

// mayProbe reports that a provider may be asked from this source.
func (src *source) mayProbe(provider string, now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		return !now.Before(src.trialAt) // a ready queue that a blocklist quarantined may make the trial connection
	}
	return !now.Before(src.providerQuarantines[provider])
}

// quarantineAt records that a wide provider quarantined the source. The map is bounded by the providers of the table.
func (src *source) quarantineAt(provider string, until time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.providerQuarantines == nil {
		src.providerQuarantines = map[string]time.Time{}
	}
	src.providerQuarantines[provider] = until
}

// tryAt is when a connection may be tried, if not now. For a quarantined source, the caller that may connect now makes the
// trial connection, and nextTrial is when the next one is due. A reachability trial waits for the end of the quarantine: it
// must not take the place of the trial connection, which is for the blocklists.
func (src *source) tryAt(route string, isReachTrial bool, again time.Duration, now time.Time) (wait, nextTrial time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if rest := src.mayAskAt(route, isReachTrial, now); now.Before(rest) {
		return rest, time.Time{}
	}
	if wait := src.health.tryAt(isReachTrial, now); now.Before(wait) {
		return wait, time.Time{}
	}
	if !now.Before(src.quarantinedUntil) {
		return time.Time{}, time.Time{}
	}
	src.trialAt, src.trialRoute = now.Add(again), ""
	return time.Time{}, src.trialAt
}

// mayAskAt is when a route may be asked from a source that is quarantined everywhere: when its trial connection is due; for a
// reachability trial, when the quarantine ends. Other routes leave the trial connection to the delisting trial for trialGrace:
// else probes at hosts that never answer would use up every trial connection. The mutex is held.
func (src *source) mayAskAt(route string, isReachTrial bool, now time.Time) time.Time {
	switch {
	case isReachTrial || !now.Before(src.quarantinedUntil):
		return src.quarantinedUntil
	case src.watched && route != src.trialRoute && src.lastBlocked.domain != "":
		return src.trialAt.Add(trialGrace)
	}
	return src.trialAt
}

// returnTrial gives back a trial connection for which no host was dialled, unless another was planned since; nextTrial is what
// tryAt returned. The next one may start at the given time from the named route, if there is one, and from others trialGrace
// later.
func (src *source) returnTrial(nextTrial time.Time, route string, at time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.trialAt.Equal(nextTrial) {
		src.trialAt, src.trialRoute = at, route
	}
}

// leaveQuarantine ends the quarantine of a source that got a reply about a recipient. It reports whether it was quarantined.
func (src *source) leaveQuarantine(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	was := now.Before(src.quarantinedUntil)
	if was {
		src.quarantinedUntil = time.Time{}
		clear(src.blocklistReports)
	}
	return was
}

// otherAvailable reports that a wide provider may be asked from another source of this node.
func (a *sourceSet) otherAvailable(p *engine.Provider, except *source, now time.Time) bool {
	if p.Kind != engine.KindWide {
		return false
	}
	for _, src := range a.list {
		if src != except && src.mayProbe(p.ID, now) {
			return true
		}
	}
	return false
}

// quarantineEverywhere advances all probes that wait for the source, and saves the quarantine for a restart. No lock is held.
func (p *Prober) quarantineEverywhere(src *source) {
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
func (p *Prober) saveQuarantine(src *source) {
	src.mu.Lock()
	until := src.quarantinedUntil
	src.mu.Unlock()
	b := cache.Budget{Name: quarantineKey(src)}
	if !until.IsZero() {
		b.State, b.Until = binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), until
	}
	if err := p.cfg.Cache.PutBudgets([]cache.Budget{b}); err != nil {
		p.cfg.Log.Error("quarantine of an egress source not saved", "error", err)
	}
}

// loadQuarantines reads which sources are quarantined everywhere. The time of the trial connection is not kept: it is due an
// hour after a start. A source whose entry cannot be read is quarantined for that hour, because all its hourly budgets count as
// used up.
func (p *Prober) loadQuarantines(now time.Time) {
	for _, src := range p.sources.list {
		state, ok, err := p.cfg.Cache.Budget(quarantineKey(src))
		if err != nil {
			src.quarantinedUntil = now.Add(p.table.Load().Scaled(delistingTrialInterval))
			src.trialAt = src.quarantinedUntil
			p.cfg.Log.Error("quarantine of an egress source unreadable: quarantined for an hour", "egress", src.name, "error", err)
		}
		if ok && len(state) == 8 {
			src.quarantinedUntil, src.trialAt = now.Add(time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Sub(now)), now.Add(p.table.Load().Scaled(delistingTrialInterval))
		}
	}
}

func quarantineKey(src *source) string { return "rest " + src.name }

// endQuarantineOnReply ends the quarantine of a source whose trial connection got a reply about a recipient that was not about
// us.
func (rh *replyHandler) endQuarantineOnReply() {
	for _, a := range rh.s.seen {
		if a.finding.Blame == engine.BlameUs || a.finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if src, p := rh.s.source, rh.l.prober; len(rh.s.seen) > 0 && src.leaveQuarantine(rh.now) {
		p.cfg.Log.Warn("egress source no longer blocklisted", "egress", src.name)
		p.spawn(func(context.Context, context.Context) { p.resumeDelisted(src) })
	}
}

// mayBeTrial reports a ready queue that is quarantined only for a public blocklist, when the trial connection of its source is
// due. The mutex is held.
func (q *readyQueue) mayBeTrial(now time.Time) bool {
	return q.blocklisted && q.source.quarantined(now) && !q.source.awaitingTrial(now)
}

// resumeDelisted ends the quarantine of the queues that were quarantined for the blocklist. No lock is held.
func (p *Prober) resumeDelisted(src *source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		q.mu.Lock()
		if q.source == src && q.blocklisted {
			q.blocklisted, q.budget.QuarantinedUntil = false, time.Time{}
			src.quarantineAt(q.provider.ID, time.Time{})
			p.budgetLog.RequestLease(&q.budget)
			q.dispatch(now)
		}
		q.mu.Unlock()
	}
	p.saveQuarantine(src)
}
