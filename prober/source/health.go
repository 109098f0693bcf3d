package source

import (
	"sync"
	"time"
)

// A source that cannot connect anywhere is down: the fault is ours or our network's, and each further attempt would blame a
// receiver for it. While it is down, only trial connections are made, to find out whether it is up again.
const (
	downFailures  = 20 // connections in a row
	downRoutes    = 10 // that they went to, at the least
	trialInterval = 30 * time.Second

	// suspectRoutes is how many routes in a row a source fails to reach before it is suspect. recentSuccess is how long before
	// these failures its last connection may have been made: otherwise nothing suggests that it was able to connect.
	suspectRoutes = 5
	recentSuccess = 5 * time.Minute
	// overlapGrace is how long after the start of a connection the source must be seen to work for its failure to be the
	// receiver's: a packet without an answer is sent again after a second (RFC 6298 section 2).
	overlapGrace = time.Second
	// maxSuccessGap is the longest time between two connections of a source that is seen to work: a connection survives an
	// outage as short as that, as its packets are sent at once and after 1, 3 and 7 seconds.
	maxSuccessGap = 3 * time.Second
)

// Health is the state of a source by the results of its connections.
type Health struct {
	mu           sync.Mutex      // guards what follows
	failures     int             // in a row
	failedRoutes map[string]bool // of these failures; at most downRoutes
	trialAt      time.Time       // when the next trial may go; only while suspect
	workingSince time.Time       // since when it was seen to work, until lastSuccess
	lastSuccess  time.Time       // when the last connection was made
	firstFailure time.Time       // the first failure in the row

	lastReached     Reached   // the host reached last, which is most likely to answer a trial connection
	lastReachTrial  time.Time // when the last reachability trial was sent
	reachTrialReply time.Time // when one connected last
	trials          int       // trial connections since it went down
	watched         bool      // a goroutine sends trial connections
}

// RecordConnect records whether a connection was made. It reports a change: down, or up again.
func (h *Health) RecordConnect(ok bool, route string, now time.Time) (changed bool) {
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
		h.trialAt = now.Add(trialInterval)
		if h.lastReached.Host != "" { // a reachability trial may go as soon as the last one is long enough ago
			h.trialAt = now.Add(max(0, h.lastReachTrial.Add(reachTrialInterval).Sub(now)))
		}
	}
	return !was && h.down()
}

func (h *Health) down() bool { return h.failures >= downFailures && len(h.failedRoutes) >= downRoutes }

// suspect reports that several receivers failed in a row: the fault may be ours.
func (h *Health) suspect() bool { return len(h.failedRoutes) >= suspectRoutes }

// IsDown reports a source that cannot connect anywhere.
func (h *Health) IsDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down()
}

// MayBeOurFault reports that a connection begun at a time may have failed by our own fault: several receivers fail in a row,
// and the source worked recently, but not while this connection was tried.
func (h *Health) MayBeOurFault(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.suspect() && h.noSuccessSince(began) && h.workedRecently()
}

// MayBeOutage reports that a connection begun at a time may have failed in an outage of ours that has just begun, or that
// ended before the connection failed.
func (h *Health) MayBeOutage(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return (began.Before(h.workingSince) || h.noSuccessSince(began)) && h.workedRecently()
}

// noSuccessSince reports that no connection was made later than overlapGrace after began. The mutex is held.
func (h *Health) noSuccessSince(began time.Time) bool {
	return h.lastSuccess.Sub(began) <= overlapGrace
}

// workedRecently reports that the source had worked recently when the failures in a row began. The mutex is held.
func (h *Health) workedRecently() bool { return h.firstFailure.Sub(h.lastSuccess) < recentSuccess }
