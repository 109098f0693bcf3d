package prober

import (
	"context"
	"time"

	"probity/prober/budget"
)

// A trial connection to a host that never answers proves nothing: with only such hosts left, a working source would stay down.
// So trial connections go to the host that the source reached last, within that queue's budgets: a reachability trial. If that
// is not possible, and every fourth time in case this host is gone, a ready queue with waiting probes makes the trial
// connection. The first reachability trial starts as soon as the source is suspect: a host that answers it shows that the
// source works.
const (
	trialGrace         = time.Second // how long others leave the trial connection to the reachability trial
	queueTrialEvery    = 4
	reachTrialInterval = 5 * time.Second // at most one in this time
	reachTrialLife     = 3 * time.Second
)

// reachTrial is a host that a source has reached, and the target that it was asked about.
type reachTrial struct {
	delistingTrial
	host string
}

// recordReached records a host that sent a banner.
func (h *health) recordReached(k reachTrial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastReached = k
}

// forgetReached drops a host that must not be asked any more.
func (h *health) forgetReached(k reachTrial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastReached.host == k.host {
		h.lastReached = reachTrial{}
	}
}

// recordTrialReply records when a reachability trial was answered.
func (h *health) recordTrialReply(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reachTrialReply = now
}

// firstTrial is when a source that becomes suspect may make its first trial connection. The mutex is held.
func (h *health) firstTrial(now time.Time) time.Time {
	if h.lastReached.host == "" {
		return now.Add(trialInterval)
	}
	if at := h.lastReachTrial.Add(reachTrialInterval); at.After(now) {
		return at
	}
	return now
}

// tryAt is when a connection may be tried, if not now. While the source is down, the caller that may connect now makes the
// trial connection, and the next one is due later.
func (h *health) tryAt(isReachTrial bool, now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.trialAt
	switch {
	case !isReachTrial && !h.down():
		return time.Time{}
	case !isReachTrial && h.lastReached.host != "":
		at = at.Add(trialGrace)
	}
	if now.Before(at) {
		return at
	}
	h.trialAt = now.Add(trialInterval)
	if h.trials++; isReachTrial {
		h.lastReachTrial = now
	}
	return time.Time{}
}

// watch makes reachability trials for a source until it is no longer suspect.
func (p *Prober) watch(src *source) {
	if !src.health.needsWatch() {
		return
	}
	p.spawn(func(soft, _ context.Context) {
		for at, k := src.health.nextTrial(); !at.IsZero(); at, k = src.health.nextTrial() {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // it may be no longer suspect by now
			}
			if k.host != "" && p.sendReachTrial(src, k) {
				continue
			}
			if !sleep(soft, 2*trialGrace) { // a queue's turn
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

// needsWatch reports a suspect source that is not watched; the caller must watch it from now on.
func (h *health) needsWatch() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched || !h.suspect() || h.lastReached.host == "" {
		return false
	}
	h.watched = true
	return true
}

// nextTrial is when the next trial connection is due, and the host that it may go to. A zero time means none, and the watch
// ends.
func (h *health) nextTrial() (time.Time, reachTrial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.suspect() {
		h.watched = false
		return time.Time{}, reachTrial{}
	}
	if h.down() && h.trials%queueTrialEvery == queueTrialEvery-1 {
		return h.trialAt, reachTrial{}
	}
	return h.trialAt, h.lastReached
}

// sendReachTrial connects to a host without a recipient to ask about. It returns false if it may not.
func (p *Prober) sendReachTrial(src *source, k reachTrial) bool {
	now := time.Now()
	if src.quarantined(now) {
		return false
	}
	if p.mustNotAsk(&k.delistingTrial) {
		src.health.forgetReached(k)
		return false
	}
	q := p.queueOf(&k.route, src, now)
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.budget.QuarantinedUntil) {
		return false // its receiver quarantined this source
	}
	return !q.removed && q.openConnection(&hostQueue{key: hostQueueKey(k.host, k.hosts), host: k.host, domain: k.domain, reachTrial: true}, budget.LongJob, now)
}
