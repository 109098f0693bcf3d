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

// RecordConnect records whether a connection was made. It reports a change: down, or up again.
func (b *breaker) RecordConnect(ok, isReachTrial bool, route string, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.down()
	if ok {
		if now.Sub(b.lastSuccess) > maxSuccessGap {
			b.workingSince = now
		}
		b.lastSuccess = now
		if isReachTrial {
			b.reachTrialReply = now
		}
		b.failures, b.reachTrials = 0, 0
		clear(b.failedRoutes)
		return was
	}
	if !b.reachTrialReply.IsZero() && now.Sub(b.reachTrialReply) < reachTrialLife {
		return false
	}
	wasSuspect := b.suspect()
	b.failures++
	if b.failures == 1 {
		b.firstFailure = now
	}
	if b.failedRoutes == nil {
		b.failedRoutes = map[string]bool{}
	}
	if len(b.failedRoutes) < downRoutes {
		b.failedRoutes[route] = true
	}
	if t := &b.trials[Reachability]; b.suspect() && !wasSuspect {
		t.at = now.Add(trialInterval)
		if t.last.Domain != "" { // a reachability trial may go as soon as the last one is long enough ago
			t.at = now.Add(max(0, b.lastReachTrial.Add(reachTrialInterval).Sub(now)))
		}
	}
	return !was && b.down()
}

// down reports whether the source cannot connect anywhere. The mutex is held.
func (b *breaker) down() bool { return b.failures >= downFailures && len(b.failedRoutes) >= downRoutes }

// suspect reports whether several receivers failed in a row: the fault may be ours. The mutex is held.
func (b *breaker) suspect() bool { return len(b.failedRoutes) >= suspectRoutes }

// IsDown reports whether the source cannot connect anywhere.
func (b *breaker) IsDown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down()
}

// BlockedUntil returns the time at which a source that is down may try a connection; zero for a source that is not.
func (b *breaker) BlockedUntil() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.down() {
		return time.Time{}
	}
	return b.trials[Reachability].at
}

// MayBeOurFault reports whether a connection begun at a time may have failed by our own fault: several receivers fail
// in a row, and the source worked recently, but not while this connection was tried.
func (b *breaker) MayBeOurFault(began time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.suspect() && b.noSuccessSince(began) && b.workedRecently()
}

// MayBeOutage reports whether a connection begun at a time may have failed in an outage of ours that has just begun, or
// that ended before the connection failed.
func (b *breaker) MayBeOutage(began time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return (began.Before(b.workingSince) || b.noSuccessSince(began)) && b.workedRecently()
}

// noSuccessSince reports whether no connection was made later than overlapGrace after began. The mutex is held.
func (b *breaker) noSuccessSince(began time.Time) bool {
	return b.lastSuccess.Sub(began) <= overlapGrace
}

// workedRecently reports whether the source had worked recently when the failures in a row began. The mutex is held.
func (b *breaker) workedRecently() bool { return b.firstFailure.Sub(b.lastSuccess) < recentSuccess }
