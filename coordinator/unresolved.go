package coordinator

import (
	"slices"
	"time"

	"probity/engine"
)

// A domain that cannot be looked up is mostly broken, and its rows are told so. When several in a row cannot, the cause may be our
// resolver, or the way to it. Then a made-up name is looked up, below a domain that was found: only when that fails, too,
// domains are asked for again, three times at the most, before their rows are told. The first that fails does not know yet that
// others will, and is kept for a moment: until a domain is found, or no other is being asked for.
const (
	failuresForCheck = 3               // failures in a row
	suspectFor       = 5 * time.Second // after a resolver check that failed
	undecidedFor     = time.Second     // at the least, while others are being asked
	promptLookup     = time.Second     // is how a resolver that is well finds the resolver check
	unhealthyFor     = time.Minute     // how long one that was not is asked again, whatever a resolver check says
	outageFailures   = 20              // so many fail in a row of no accident: the outage was over when the resolver check went
)

// retryDelays is when a domain is asked for again, counted from its last failure: past the resolver's memory of that one.
var retryDelays = [...]time.Duration{6 * time.Second, 15 * time.Second, 45 * time.Second}

// unresolvedDomains are the domains whose look-up has failed and that are not told yet: at most as many as are being asked.
type unresolvedDomains struct {
	failuresInRow  int
	checking       bool             // the resolver check is under way
	suspectUntil   time.Time        // until when it is our resolver
	checkFailedAt  time.Time        // when a resolver check failed last
	undecided      []*domain        // until the resolver check is back, or others
	undecidedSince time.Time        // when the first of them came
	scheduled      []scheduledRetry // by when they are due
	rows           int64            // that wait for those
}

type scheduledRetry struct {
	domain *domain
	at     time.Time
}

func (f *unresolvedDomains) held() int { return len(f.undecided) + len(f.scheduled) }

// isIdle reports that no domain is held and no resolver check is under way.
func (f *unresolvedDomains) isIdle() bool { return !f.checking && f.held() == 0 }

// setHeld keeps a domain, or lets it go, and counts its rows.
func (f *unresolvedDomains) setHeld(x *domain, held bool) {
	if x.held = held; held {
		f.rows += int64(len(x.waitingRows))
	} else {
		f.rows -= int64(len(x.waitingRows))
	}
}

// addRow lets a row wait for a domain, be it held or not.
func (f *unresolvedDomains) addRow(x *domain, r splitRow) {
	if x.waitingRows = append(x.waitingRows, r); x.held {
		f.rows++
	}
}

func isUnresolved(x *domain) bool {
	fact := x.route.Fact
	return fact == engine.FactServFail || fact == engine.FactDNSTimeout
}

// handleAnswer takes an answer in. True when its rows may be told; else the domain is kept.
func (f *unresolvedDomains) handleAnswer(x *domain, now time.Time) bool {
	if !isUnresolved(x) {
		f.failuresInRow = 0
		return true
	}
	f.failuresInRow++
	if x.retries == len(retryDelays) {
		return true
	}
	f.setHeld(x, true)
	if now.Before(f.suspectUntil) {
		f.scheduleRetry(x, now)
		return false
	}
	if len(f.undecided) == 0 {
		f.undecidedSince = now
	}
	f.undecided = append(f.undecided, x)
	return false
}

// wantsCheck reports that so many failed in a row that it may be our resolver.
func (f *unresolvedDomains) wantsCheck(now time.Time) bool {
	return f.failuresInRow >= failuresForCheck && !f.checking && !now.Before(f.suspectUntil)
}

// checkDone tells whether the resolver check was found.
func (f *unresolvedDomains) checkDone(working bool, now time.Time) {
	f.checking = false
	isolated := f.failuresInRow < outageFailures && (f.checkFailedAt.IsZero() || now.Sub(f.checkFailedAt) >= unhealthyFor)
	if working {
		f.failuresInRow, f.undecidedSince = 0, time.Time{}
	} else {
		f.checkFailedAt, f.suspectUntil = now, now.Add(suspectFor)
	}
	if working && isolated {
		return
	}
	again := f.undecided
	f.undecided = nil
	for _, u := range again {
		f.scheduleRetry(u, now)
	}
}

func (f *unresolvedDomains) scheduleRetry(x *domain, now time.Time) {
	p := scheduledRetry{x, now.Add(retryDelays[x.retries])}
	x.retries++
	i, _ := slices.BinarySearchFunc(f.scheduled, p, func(a, b scheduledRetry) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	f.scheduled = slices.Insert(f.scheduled, i, p)
}

// nextDue takes a domain that is to be asked for again; nil when none is.
func (f *unresolvedDomains) nextDue(now time.Time) *domain {
	if len(f.scheduled) == 0 || now.Before(f.scheduled[0].at) {
		return nil
	}
	x := f.scheduled[0].domain
	f.scheduled = f.scheduled[1:]
	f.setHeld(x, false)
	return x
}

// release takes a domain that is broken by itself: another was found since, or no other is being asked for.
func (f *unresolvedDomains) release(idle bool, now time.Time) *domain {
	if len(f.undecided) == 0 || f.checking || !idle && (f.failuresInRow > 0 || now.Before(f.undecidedSince.Add(undecidedFor))) {
		return nil
	}
	x := f.undecided[0]
	f.undecided = f.undecided[1:]
	f.setHeld(x, false)
	return x
}

// wait is how long to wait for an answer at the most.
func (f *unresolvedDomains) wait(until, now time.Time) time.Duration {
	if len(f.scheduled) > 0 && f.scheduled[0].at.Before(until) {
		until = f.scheduled[0].at
	}
	return until.Sub(now)
}
