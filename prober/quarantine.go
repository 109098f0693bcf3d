package prober

import (
	"context"
	"encoding/binary"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A source that blocklists name is quarantined everywhere: it asks nothing, except on one connection in a while, the trial connection. When a receiver
// answers the trial connection about its recipient, the source is off the lists, and all goes on as before, also in queues that were quarantined only
// because of the list. A source is quarantined at one receiver alone until the receiver's time is over; a wide provider's rows are then
// asked from the other sources, each of which keeps to a budget of its own.

// delistingTrialInterval is how often a source that is quarantined everywhere is tried.
const delistingTrialInterval = time.Hour

// awaitingTrial reports a source that is not to be used: it is quarantined everywhere, and it is not time for its trial connection.
func (src *source) awaitingTrial(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil) && now.Before(src.trialAt)
}

// quarantined reports a source that is quarantined everywhere, be it time for its trial connection or not.
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
		return !now.Before(src.trialAt) // a ready queue that a blocklist quarantined may take the trial connection
	}
	return !now.Before(src.providerQuarantines[provider])
}

// quarantineAt notes that a wide provider wants no more of the source for a time. Bounded by the providers of the table.
func (src *source) quarantineAt(provider string, until time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.providerQuarantines == nil {
		src.providerQuarantines = map[string]time.Time{}
	}
	src.providerQuarantines[provider] = until
}

// tryAt is when a connection may be tried, if not now; of a source that is quarantined, who is let go is the trial connection, and that tells when the
// next may go. Such a source is not asked whether it is well before it is the trial connection's time: its trial connection is for the lists that name
// it, and no reachability trial shall take its place.
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

// mayAskAt is when a route may be asked from a source that is quarantined everywhere: at the time of its trial connection; a reachability trial not before the
// quarantine ends. Other routes leave the trial connection to the delisting trial for a moment: else those that wait at hosts which never answer would take
// one trial connection after the other. The mutex is held.
func (src *source) mayAskAt(route string, isReachTrial bool, now time.Time) time.Time {
	switch {
	case isReachTrial || !now.Before(src.quarantinedUntil):
		return src.quarantinedUntil
	case src.watched && route != src.trialRoute && src.lastBlocked.domain != "":
		return src.trialAt.Add(trialGrace)
	}
	return src.trialAt
}

// returnTrial takes back a trial connection for which no host was dialled, known by the time that tryAt returned, unless another was planned since:
// the next may go at the given time, from the named route if there is one, and from others a moment later, as ever.
func (src *source) returnTrial(nextTrial time.Time, route string, at time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.trialAt.Equal(nextTrial) {
		src.trialAt, src.trialRoute = at, route
	}
}

// leaveQuarantine ends the quarantine of a source that has been answered about a recipient. It reports whether it was quarantined.
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

// quarantineEverywhere lets all who wait for the source go home, and remembers over a restart that it is quarantined. No lock is held.
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
		p.cfg.Log.Error("that a source rests everywhere was not written: a restart would forget it", "error", err)
	}
}

// loadQuarantines reads which sources are quarantined everywhere. The trial connection's time is not kept: it comes an hour after a start. A source of
// which this cannot be read is quarantined for that hour, as all its budgets by the hour count as used up.
func (p *Prober) loadQuarantines(now time.Time) {
	for _, src := range p.sources.list {
		state, ok, err := p.cfg.Cache.Budget(quarantineKey(src))
		if err != nil {
			src.quarantinedUntil = now.Add(p.table.Load().Scaled(delistingTrialInterval))
			src.trialAt = src.quarantinedUntil
			p.cfg.Log.Error("whether a source rests everywhere cannot be read: it rests for an hour", "egress", src.name, "error", err)
		}
		if ok && len(state) == 8 {
			src.quarantinedUntil, src.trialAt = now.Add(time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Sub(now)), now.Add(p.table.Load().Scaled(delistingTrialInterval))
		}
	}
}

func quarantineKey(src *source) string { return "rest " + src.name }

// endQuarantineOnReply ends the quarantine of a source whose trial connection was answered about a recipient: whatever the answer, it was not about us.
func (rh *replyHandler) endQuarantineOnReply() {
	for _, a := range rh.s.seen {
		if a.finding.Blame == engine.BlameUs || a.finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if src, p := rh.s.source, rh.l.prober; len(rh.s.seen) > 0 && src.leaveQuarantine(rh.now) {
		p.cfg.Log.Warn("a source that rested everywhere is well again", "egress", src.name)
		p.spawn(func(context.Context, context.Context) { p.resumeDelisted(src) })
	}
}

// mayBeTrial reports a ready queue that is quarantined for a public blocklist alone, when it is time to try whether its source is still on it.
// The mutex is held.
func (q *readyQueue) mayBeTrial(now time.Time) bool {
	return q.blocklisted && q.source.quarantined(now) && !q.source.awaitingTrial(now)
}

// resumeDelisted lets the queues go on that were quarantined for the blocklist. No lock is held.
func (p *Prober) resumeDelisted(src *source) {
	now := time.Now()
	for _, q := range p.allQueues() {
		q.mu.Lock()
		if q.source == src && q.blocklisted {
			q.blocklisted, q.budget.quarantinedUntil = false, time.Time{}
			src.quarantineAt(q.provider.ID, time.Time{})
			p.budgetLog.requestLease(&q.persistedBudget)
			q.dispatch(now)
		}
		q.mu.Unlock()
	}
	p.saveQuarantine(src)
}
