package source

import "time"

// A source that cannot connect anywhere is down: the fault is ours or our network's, and each further attempt would
// blame a receiver for it. While it is down, only trial connections are made, to find out whether it is up again.
const (
	downFailures  = 20 // connections in a row
	downRoutes    = 10 // that they went to, at the least
	trialInterval = 30 * time.Second

	// suspectRoutes is how many routes in a row a source fails to reach before it is suspect. recentSuccess is how long
	// before these failures its last connection may have been made: otherwise nothing suggests that it was able to
	// connect.
	suspectRoutes = 5
	recentSuccess = 5 * time.Minute
	// overlapGrace is how long after the start of a connection the source must be seen to work for its failure to be
	// the receiver's: a packet without an answer is sent again after a second (RFC 6298 section 2).
	overlapGrace = time.Second
	// maxSuccessGap is the longest time between two connections of a source that is seen to work: a connection survives
	// an outage as short as that, as its packets are sent at once and after 1, 3 and 7 seconds.
	maxSuccessGap = 3 * time.Second
)

// health is what the connections of a source have shown of it: a value, without a lock.
type health struct {
	failures     int             // in a row
	failedRoutes map[string]bool // of these failures; at most downRoutes
	firstFailure time.Time       // the first failure in the row
	workingSince time.Time       // since when it was seen to work, until lastSuccess
	lastSuccess  time.Time       // when the last connection was made
}

// recordSuccess records that a connection was made.
func (h *health) recordSuccess(now time.Time) {
	if now.Sub(h.lastSuccess) > maxSuccessGap {
		h.workingSince = now
	}
	h.lastSuccess = now
	h.failures = 0
	clear(h.failedRoutes)
}

// recordFailure records that a connection to a route was not made.
func (h *health) recordFailure(route string, now time.Time) {
	h.failures++
	if h.failures == 1 {
		h.firstFailure = now
	}
	if h.failedRoutes == nil {
		h.failedRoutes = map[string]bool{}
	}
	if len(h.failedRoutes) < downRoutes {
		h.failedRoutes[route] = true
	}
}

// RecordConnect records whether a connection was made. It reports a change: down, or up again.
func (b *breaker) RecordConnect(ok, isReachTrial bool, route string, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.health.down()
	if ok {
		b.health.recordSuccess(now)
		b.reachTrials = 0
		if isReachTrial {
			b.reachTrialReply = now
		}
		return was
	}
	if !b.reachTrialReply.IsZero() && now.Sub(b.reachTrialReply) < reachTrialLife {
		return false
	}
	wasSuspect := b.health.suspect()
	b.health.recordFailure(route, now)
	if t := &b.trials[Reachability]; b.health.suspect() && !wasSuspect {
		t.at = now.Add(trialInterval)
		if t.last.Domain != "" { // a reachability trial may go as soon as the last one is long enough ago
			t.at = now.Add(max(0, b.lastReachTrial.Add(reachTrialInterval).Sub(now)))
		}
	}
	return !was && b.health.down()
}

// down reports whether the source cannot connect anywhere.
func (h *health) down() bool { return h.failures >= downFailures && len(h.failedRoutes) >= downRoutes }

// suspect reports whether several receivers failed in a row: the fault may be ours.
func (h *health) suspect() bool { return len(h.failedRoutes) >= suspectRoutes }

// IsDown reports whether the source cannot connect anywhere.
func (b *breaker) IsDown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.down()
}

// BlockedUntil returns the time at which a source that is down may try a connection; zero for a source that is not.
func (b *breaker) BlockedUntil() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.health.down() {
		return time.Time{}
	}
	return b.trials[Reachability].at
}

// MayBeOurFault reports whether a connection begun at a time may have failed by our own fault: several receivers fail
// in a row, and the source worked recently, but not while this connection was tried.
func (b *breaker) MayBeOurFault(began time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.suspect() && b.health.noSuccessSince(began) && b.health.workedRecently()
}

// MayBeOutage reports whether a connection begun at a time may have failed in an outage of ours that has just begun, or
// that ended before the connection failed.
func (b *breaker) MayBeOutage(began time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return (began.Before(b.health.workingSince) || b.health.noSuccessSince(began)) && b.health.workedRecently()
}

// noSuccessSince reports whether no connection was made later than overlapGrace after began.
func (h *health) noSuccessSince(began time.Time) bool {
	return h.lastSuccess.Sub(began) <= overlapGrace
}

// workedRecently reports whether the source had worked recently when the failures in a row began.
func (h *health) workedRecently() bool { return h.firstFailure.Sub(h.lastSuccess) < recentSuccess }
