package prober

import (
	"time"
)

// later is when the lane's budgets allow more to jobs of a priority, for rows that go home undone; the zero time where no budget says so, and the
// rows may come again at once.
func (l *lane) later(who priority, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due time.Time
	put := func(t time.Time) {
		if t.After(now) && t.After(due) {
			due = t
		}
	}
	if _, d := l.pace.room(&connPace{}, who, now); d.denied {
		put(d.until)
	}
	if l.sessions > 0 {
		return due
	}
	put(l.opens())
	put(l.pace.mayConnect(who, now).until)
	put(l.egress.health.canaryAt())
	put(l.destinationsAt(who))
	return due
}

// destinationsAt is when the first destination has room for a priority, where all that the lane waits for have said when. The
// mutex is held.
func (l *lane) destinationsAt(who priority) (at time.Time) {
	for _, g := range l.blocked {
		if !g.told || g.deny < who {
			return time.Time{}
		}
		if at.IsZero() || g.until.Before(at) {
			at = g.until
		}
	}
	return at
}

// canaryAt is when a connection may be tried; the zero time where any may.
func (h *health) canaryAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sick() {
		return time.Time{}
	}
	return h.canary
}

// away is when a lane will ask anyone, if that is longer from now than rows are worth holding here: rows go home at once then,
// and those who wait for them see what they wait for. The zero time otherwise.
func (l *lane) away(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notBefore.Sub(now) > worthHolding {
		return l.notBefore
	}
	return time.Time{}
}

const worthHolding = 5 * time.Second
