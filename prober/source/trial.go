package source

import "time"

// A trial connection to a host that never answers proves nothing: with only such hosts left, a working source would stay down.
// So trial connections go to the host that the source reached last, within that queue's budgets: a reachability trial. If that
// is not possible, and every fourth time in case this host is gone, a ready queue with waiting probes makes the trial
// connection. The first reachability trial starts as soon as the source is suspect: a host that answers it shows that the
// source works.
const (
	TrialGrace         = time.Second // how long others leave the trial connection to the reachability trial
	queueTrialEvery    = 4
	reachTrialInterval = 5 * time.Second // at most one in this time
	reachTrialLife     = 3 * time.Second
)

// Reached is a host that a source has reached, and the target that it was asked about.
type Reached struct {
	Target
	Host string
}

// RecordReached records a host that sent a banner.
func (h *Health) RecordReached(k Reached) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastReached = k
}

// ForgetReached drops a host that must not be asked any more.
func (h *Health) ForgetReached(k Reached) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastReached.Host == k.Host {
		h.lastReached = Reached{}
	}
}

// RecordTrialReply records when a reachability trial was answered.
func (h *Health) RecordTrialReply(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reachTrialReply = now
}

// tryAt is when a connection may be tried, if not now. While the source is down, the caller that may connect now makes the
// trial connection, and the next one is due later.
func (h *Health) tryAt(isReachTrial bool, now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.trialAt
	switch {
	case !isReachTrial && !h.down():
		return time.Time{}
	case !isReachTrial && h.lastReached.Host != "":
		at = at.Add(TrialGrace)
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

// BlockedUntil is when a connection may be tried; zero if any may now.
func (h *Health) BlockedUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.down() {
		return time.Time{}
	}
	return h.trialAt
}

// LastReached is the host that was reached last; its name is empty if there is none.
func (h *Health) LastReached() Reached {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastReached
}

// NeedsWatch reports a suspect source that is not watched; the caller must watch it from now on.
func (h *Health) NeedsWatch() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched || !h.suspect() || h.lastReached.Host == "" {
		return false
	}
	h.watched = true
	return true
}

// NextTrial is when the next trial connection is due, and the host that it may go to. A zero time means none, and the watch
// ends.
func (h *Health) NextTrial() (time.Time, Reached) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.suspect() {
		h.watched = false
		return time.Time{}, Reached{}
	}
	if h.down() && h.trials%queueTrialEvery == queueTrialEvery-1 {
		return h.trialAt, Reached{}
	}
	return h.trialAt, h.lastReached
}
