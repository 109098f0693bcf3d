package prober

import (
	"time"

	"probity/prober/budget"
)

// budgetAllowsAt is when the queue's budgets allow more to jobs of a priority, for rows that are returned unfinished. It is
// zero if no budget sets a time, and the rows may come again at once.
func (q *readyQueue) budgetAllowsAt(class budget.Class, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due time.Time
	put := func(t time.Time) {
		if t.After(now) && t.After(due) {
			due = t
		}
	}
	if _, d := q.budget.Room(&budget.Conn{}, class, now); d.Denied {
		put(d.Until)
	}
	if q.sessions > 0 {
		return due
	}
	put(q.connectAllowedAt())
	put(q.budget.MayConnect(class, now).Until)
	put(q.source.Health.BlockedUntil())
	// When the first address limit has room, if each that the queue waits for has a time.
	var roomAt time.Time
	for _, hq := range q.blocked {
		if !hq.untilKnown || hq.deniedPriority < class {
			return due
		}
		if roomAt.IsZero() || hq.blockedUntil.Before(roomAt) {
			roomAt = hq.blockedUntil
		}
	}
	put(roomAt)
	return due
}

// resumesAt is when a ready queue will ask again, if rows are not worth holding for so long: then they are returned at once,
// and their callers see what they wait for. Zero otherwise.
func (q *readyQueue) resumesAt(now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.notBefore.Sub(now) > maxHeldWait {
		return q.notBefore
	}
	return time.Time{}
}

const maxHeldWait = 5 * time.Second
