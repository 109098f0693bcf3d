package prober

import (
	"sync"
	"time"
)

// A source that cannot connect anywhere is down: the fault is ours or our network's, and each further attempt would blame a
// receiver for it. Then one connection in a while, the trial connection, finds out whether it is up again.
const (
	downFailures  = 20 // connections in a row
	downRoutes    = 10 // that they went to, at the least
	trialInterval = 30 * time.Second

	// suspectRoutes is how many routes in a row a source fails to reach before it is suspect, and recentSuccess how long ago it must
	// have reached another when that began: a source that has reached none for long has no reason to think that it could.
	suspectRoutes = 5
	recentSuccess = 5 * time.Minute
	// overlapGrace is for how long a source must be seen to work after a connection was begun, so that its failure is the receiver's: a
	// packet without an answer is sent again after a second (RFC 6298 section 2).
	overlapGrace = time.Second
	// maxSuccessGap is how much time may lie between two connections of a source that is seen to work: no outage as short as that silences a
	// connection that is tried for longer, as its packets are sent at once and after 1, 3 and 7 seconds.
	maxSuccessGap = 3 * time.Second
)

// health is what a source's connections have come to.
type health struct {
	mu           sync.Mutex      // guards what follows
	failures     int             // in a row
	failedRoutes map[string]bool // of them; at most downRoutes
	trialAt      time.Time       // when the next may go; only while suspect
	workingSince time.Time       // since when it was seen to work, until worked
	lastSuccess  time.Time       // when the last connection was made
	firstFailure time.Time       // the first failure in the row

	lastReached     reachTrial // whom it has reached last: who is most likely to answer a trial connection
	lastReachTrial  time.Time  // when he was asked for it last
	reachTrialReply time.Time  // when he answered
	trials          int        // trial connections since it is down
	watched         bool       // somebody sends trial connections
}

// recordConnect notes a connection that was made, or that was not. It reports a change: down, or up again.
func (h *health) recordConnect(ok bool, route string, now time.Time) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.down()
	if ok {
		if now.Sub(h.lastSuccess) > maxSuccessGap {
			h.workingSince = now
		}
		h.failures, h.trials, h.lastSuccess = 0, 0, now
		clear(h.failedRoutes)
		return was
	}
	if !h.reachTrialReply.IsZero() && now.Sub(h.reachTrialReply) < reachTrialLife {
		return false
	}
	wasSuspect := h.suspect()
	if h.failures++; h.failures == 1 {
		h.firstFailure = now
	}
	if h.failedRoutes == nil {
		h.failedRoutes = map[string]bool{}
	}
	if len(h.failedRoutes) < downRoutes {
		h.failedRoutes[route] = true
	}
	if h.suspect() && !wasSuspect {
		h.trialAt = h.firstTrial(now)
	}
	return !was && h.down()
}

func (h *health) down() bool { return h.failures >= downFailures && len(h.failedRoutes) >= downRoutes }

// suspect reports several receivers that failed in a row: it may be us.
func (h *health) suspect() bool { return len(h.failedRoutes) >= suspectRoutes }

func (h *health) isDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down()
}

// mayBeOurFault reports that a connection begun at a time may have failed for reasons of our own: several receivers fail in a row,
// and lately all was well, but not while it was tried.
func (h *health) mayBeOurFault(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.suspect() && h.noSuccessSince(began) && h.workedRecently()
}

// mayBeOutage reports that a connection begun at a time may have failed in an outage of which little else was seen: one that began just
// now, or that ended before the connection failed.
func (h *health) mayBeOutage(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return (began.Before(h.workingSince) || h.noSuccessSince(began)) && h.workedRecently()
}

// noSuccessSince reports a source that was not seen to work once a connection had been tried for a while. The mutex is held.
func (h *health) noSuccessSince(began time.Time) bool {
	return h.lastSuccess.Sub(began) <= overlapGrace
}

// workedRecently reports a source that had worked lately when the failures in a row began. The mutex is held.
func (h *health) workedRecently() bool { return h.firstFailure.Sub(h.lastSuccess) < recentSuccess }
