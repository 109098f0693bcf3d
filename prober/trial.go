package prober

import "time"

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

// blockedUntil is when a connection may be tried; zero if any may now.
func (h *health) blockedUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.down() {
		return time.Time{}
	}
	return h.trialAt
}

// LastReached is the host that was reached last; its name is empty if there is none.
func (h *health) LastReached() reachTrial {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastReached
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
