package source

import (
	"slices"
	"strings"
	"sync"
	"time"

	"probity/engine"
)

// TrialKind is what a trial connection is to find out.
type TrialKind uint8

const (
	// Reachability trials go to the host that a suspect source reached last, within that queue's budgets: a host that
	// never answers proves nothing, and with only such hosts left, a working source would stay down. Without such a
	// host, and every fourth time in case it is gone, a ready queue with waiting probes makes the trial connection. The
	// first starts as soon as the source is suspect: a host that answers it shows that the source works.
	Reachability TrialKind = iota
	// Delisting trials of a source that is quarantined everywhere need no row: they go to the targets that refused the
	// source as blocklisted, in turn, once a row could not be asked; if there are none, to the target of the last such
	// row.
	Delisting
	numTrialKinds
)

const (
	TrialGrace         = time.Second // how long others leave the trial connection to the one that is planned
	queueTrialEvery    = 4
	reachTrialInterval = 5 * time.Second // at most one in this time
	reachTrialLife     = 3 * time.Second
	// DelistingInterval is how often a source that is quarantined everywhere is tried.
	DelistingInterval = time.Hour
	// TrialCheckInterval is how often a quarantined source is checked for a trial connection that is due.
	TrialCheckInterval = time.Minute
)

// Target is a domain of a route, which a trial connection may be made for.
type Target struct {
	Route  engine.Route
	Domain string
	Hosts  []string // the domain's MX set
}

// trials plans the trial connections of one kind.
type trials struct {
	at      time.Time // when the next one may start
	route   string    // the route of the delisting trial that is to be the next
	watched bool      // a goroutine makes them
	// reached last, or the last that was not asked because the source is quarantined everywhere; may be empty
	last   Target
	inTurn []Target // those that refused the source as blocklisted
}

// breaker decides when a source may connect.
type breaker struct {
	mu sync.Mutex // guards what follows, and what of Source says so

	health health

	quarantinedUntil time.Time // quarantined everywhere until then
	delistedAt       time.Time // when its last quarantine everywhere ended before its time

	trials          [numTrialKinds]trials
	reachTrials     int       // trial connections since it went down
	lastReachTrial  time.Time // when the last reachability trial was sent
	reachTrialReply time.Time // when one connected last
}

// TryAt returns the time at which a connection may be tried, if not now: while the source is quarantined everywhere or
// down, when the trial connection is due. The caller that may connect now makes it, and nextTrial is when the next one
// of a quarantined source is due. Others than the planned trial wait trialGrace longer: else probes at hosts that never
// answer would use up every trial connection. A reachability trial waits for the end of the quarantine: it must not
// take the place of a delisting trial.
func (b *breaker) TryAt(route string, isReachTrial bool, again time.Duration,
	now time.Time) (wait, nextTrial time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	quarantined, needsReachTrial := now.Before(b.quarantinedUntil), isReachTrial || b.health.down()
	if !quarantined && !needsReachTrial {
		return time.Time{}, time.Time{}
	}
	reach, delisting := &b.trials[Reachability], &b.trials[Delisting]
	switch {
	case quarantined && isReachTrial:
		wait = b.quarantinedUntil
	case quarantined:
		wait = delisting.mayStartAt(route == delisting.route)
	}
	if needsReachTrial && !now.Before(wait) {
		wait = reach.mayStartAt(isReachTrial)
	}
	if now.Before(wait) {
		return wait, time.Time{}
	}
	if needsReachTrial {
		reach.at = now.Add(trialInterval)
		b.reachTrials++
		if isReachTrial {
			b.lastReachTrial = now
		}
	}
	if quarantined {
		delisting.at, delisting.route = now.Add(again), ""
		nextTrial = delisting.at
	}
	return time.Time{}, nextTrial
}

// mayStartAt returns the time at which a connection may take the next trial: others than the planned one leave it to
// that for trialGrace.
func (t *trials) mayStartAt(planned bool) time.Time {
	if !planned && t.last.Domain != "" {
		return t.at.Add(TrialGrace)
	}
	return t.at
}

// ReturnTrial gives back a trial connection of a quarantined source for which no host was dialled, unless another was
// planned since; nextTrial is what TryAt returned, zero if the connection was no such trial. The next one may start at
// the given time from the named route, if there is one, and from others trialGrace later.
func (b *breaker) ReturnTrial(nextTrial time.Time, route string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := &b.trials[Delisting]; !nextTrial.IsZero() && t.at.Equal(nextTrial) {
		t.at, t.route = at, route
	}
}

// needsTrials reports whether the source needs trial connections of a kind. The mutex is held.
func (b *breaker) needsTrials(kind TrialKind, now time.Time) bool {
	if kind == Reachability {
		return b.health.suspect()
	}
	return now.Before(b.quarantinedUntil)
}

// StartWatch reports whether the source needs trial connections of a kind and is not watched: the caller watches it
// from now on.
func (b *breaker) StartWatch(kind TrialKind, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.trials[kind]
	if t.watched || !b.needsTrials(kind, now) || kind == Reachability && t.last.Domain == "" {
		return false
	}
	t.watched = true
	return true
}

// NextTrial returns the time at which the next trial connection of a kind may start and, if that is now, its target; an
// empty one leaves it to the ready queues. The zero time ends the caller's watch: the source needs no more trials.
func (b *breaker) NextTrial(kind TrialKind, now time.Time) (at time.Time, to Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.trials[kind]
	switch {
	case !b.needsTrials(kind, now):
		t.watched = false
		if kind == Delisting {
			t.last, t.inTurn = Target{}, nil
		}
		return time.Time{}, Target{}
	case now.Before(t.at), kind == Reachability &&
		(now.Before(b.quarantinedUntil) || b.health.down() && b.reachTrials%queueTrialEvery == queueTrialEvery-1):
		return t.at, Target{}
	}
	to = t.last
	if to.Domain != "" && len(t.inTurn) > 0 {
		to = t.inTurn[0]
		t.inTurn = append(t.inTurn[1:], to)
	}
	t.route = to.Route.Key
	return t.at, to
}

// RecordReached records a target whose host sent a banner.
func (b *breaker) RecordReached(to Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trials[Reachability].last = to
}

// RecordBlocked records the target of a row that a source cannot ask because it is quarantined everywhere.
func (b *breaker) RecordBlocked(route *engine.Route, domain string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.quarantinedUntil) {
		// cloned: the row's text is shared
		b.trials[Delisting].last = Target{*route, strings.Clone(domain), route.Hosts}
	}
}

// RecordBlocklistedBy records a target that refused the source as blocklisted, once per route, known providers first.
// At most maxBlocklistReports are kept.
func (b *breaker) RecordBlocklistedBy(to Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.trials[Delisting]
	if to.Domain == "" || len(t.inTurn) >= maxBlocklistReports ||
		slices.ContainsFunc(t.inTurn, func(o Target) bool { return o.Route.Key == to.Route.Key }) {
		return
	}
	at := len(t.inTurn)
	if to.Route.Key == to.Route.Provider.ID {
		at = 0
	}
	t.inTurn = slices.Insert(t.inTurn, at, to)
}

// DropTarget drops a target that must not be asked any more.
func (b *breaker) DropTarget(kind TrialKind, not *Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.trials[kind]
	t.inTurn = slices.DeleteFunc(t.inTurn, func(o Target) bool {
		return o.Route.Key == not.Route.Key &&
			o.Domain == not.Domain
	})
	if t.last.Domain == not.Domain {
		t.last = Target{}
	}
}
