package split

import (
	"slices"
	"time"

	"probity/engine"
)

// A domain whose lookup fails is usually broken itself, and its rows get dns_error. After several failures in a row the
// cause may be our resolver or network. Then a random name below a domain that was found is looked up (the resolver
// check). Only if that fails too are failed domains looked up again, at most three times, before their rows get
// dns_error. The first failed domain is put off for a moment, because others may follow: until a domain is found, or no
// other lookup is pending.
const (
	failuresForCheck = 3               // consecutive failures that start a resolver check
	suspectFor       = 5 * time.Second // the resolver is suspect after a failed check
	undecidedFor     = time.Second     // least time that a failed domain is put off while other lookups are pending
	promptLookup     = time.Second     // a healthy resolver answers the check within this time
	// after a failed check, failed domains are retried this long even if a check succeeds
	unhealthyFor   = time.Minute
	outageFailures = 20 // as many consecutive failures mean an outage, even if a check then succeeds
)

// retryDelays is when a domain is looked up again after each failure: longer than the resolver caches the failure.
var retryDelays = [...]time.Duration{6 * time.Second, 15 * time.Second, 45 * time.Second}

// unresolvedDomains holds the domains whose lookup has failed and whose rows are not answered yet. They count as
// pending lookups.
type unresolvedDomains struct {
	failuresInRow  int
	checking       bool             // a resolver check is in progress
	suspectUntil   time.Time        // until then failures count as the resolver's
	checkFailedAt  time.Time        // last failed resolver check
	undecided      []*domain        // wait for the resolver check or for other lookups
	undecidedSince time.Time        // when the first of them came
	scheduled      []scheduledRetry // sorted by due time
	rows           int64            // rows of undecided and scheduled domains
}

type scheduledRetry struct {
	domain *domain
	at     time.Time
}

// putOff puts a domain off, and counts its rows.
func (ud *unresolvedDomains) putOff(x *domain) {
	x.isPutOff = true
	ud.rows += int64(len(x.waitingRows))
}

// takeBack ends putOff.
func (ud *unresolvedDomains) takeBack(x *domain) {
	x.isPutOff = false
	ud.rows -= int64(len(x.waitingRows))
}

// addRow adds a row to those that wait for a domain, put off or not.
func (ud *unresolvedDomains) addRow(x *domain, r splitRow) {
	x.waitingRows = append(x.waitingRows, r)
	if x.isPutOff {
		ud.rows++
	}
}

// checkDue reports whether so many lookups have failed in a row that the resolver is to be checked.
func (ud *unresolvedDomains) checkDue(now time.Time) bool {
	return ud.failuresInRow >= failuresForCheck && !ud.checking && !now.Before(ud.suspectUntil)
}

func isUnresolved(fact engine.Fact) bool {
	return fact == engine.FactServFail || fact == engine.FactDNSTimeout
}

// handleAnswer handles the result of a lookup. True: the domain's rows can go on; false: the domain is put off.
func (ud *unresolvedDomains) handleAnswer(x *domain, now time.Time) bool {
	if !isUnresolved(x.route.Fact) {
		ud.failuresInRow = 0
		return true
	}
	ud.failuresInRow++
	if x.retries == len(retryDelays) {
		return true
	}
	ud.putOff(x)
	if now.Before(ud.suspectUntil) {
		ud.scheduleRetry(x, now)
		return false
	}
	if len(ud.undecided) == 0 {
		ud.undecidedSince = now
	}
	ud.undecided = append(ud.undecided, x)
	return false
}

// checkPassed handles a resolver check that was answered. Where only few domains failed, they are broken themselves;
// the others are retried.
func (ud *unresolvedDomains) checkPassed(now time.Time) {
	isolated := ud.failuresInRow < outageFailures &&
		(ud.checkFailedAt.IsZero() || now.Sub(ud.checkFailedAt) >= unhealthyFor)
	ud.checking = false
	ud.failuresInRow = 0
	ud.undecidedSince = time.Time{}
	if !isolated {
		ud.retryUndecided(now)
	}
}

// checkFailed handles a resolver check without an answer, or one that cannot be made.
func (ud *unresolvedDomains) checkFailed(now time.Time) {
	ud.checking = false
	ud.checkFailedAt = now
	ud.suspectUntil = now.Add(suspectFor)
	ud.retryUndecided(now)
}

func (ud *unresolvedDomains) retryUndecided(now time.Time) {
	again := ud.undecided
	ud.undecided = nil
	for _, x := range again {
		ud.scheduleRetry(x, now)
	}
}

func (ud *unresolvedDomains) scheduleRetry(x *domain, now time.Time) {
	p := scheduledRetry{x, now.Add(retryDelays[x.retries])}
	x.retries++
	i, _ := slices.BinarySearchFunc(ud.scheduled, p, func(a, b scheduledRetry) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // after those of the same time
	})
	ud.scheduled = slices.Insert(ud.scheduled, i, p)
}

// nextDue takes a domain whose retry is due, or nil.
func (ud *unresolvedDomains) nextDue(now time.Time) *domain {
	if len(ud.scheduled) == 0 || now.Before(ud.scheduled[0].at) {
		return nil
	}
	x := ud.scheduled[0].domain
	ud.scheduled = ud.scheduled[1:]
	ud.takeBack(x)
	return x
}

// release takes a domain that is itself broken, or nil: another domain was found since, or no other lookup is pending.
func (ud *unresolvedDomains) release(idle bool, now time.Time) *domain {
	if len(ud.undecided) == 0 || ud.checking || !idle &&
		(ud.failuresInRow > 0 || now.Before(ud.undecidedSince.Add(undecidedFor))) {
		return nil
	}
	x := ud.undecided[0]
	ud.undecided = ud.undecided[1:]
	ud.takeBack(x)
	return x
}
