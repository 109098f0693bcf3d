package coordinator

import "time"

// recentInterval is how long a row counts as recent, rounded up to one or two intervals. An older row waits for a budget rather
// than for a processor.
const recentInterval = 2 * time.Second

// inFlightLimit counts the unanswered rows that were sent: all of them, and those of recent chunks. Rows that wait for budgets need
// a high limit, or slow routes leave nothing to others. Rows that wait for a processor need a lower one: more of them do not end
// earlier, and cost garbage collection.
type inFlightLimit struct {
	recentMax int // limit of recent rows

	unanswered  int
	interval    int       // number of the current interval
	intervalEnd time.Time // end of the current interval
	recentRows  [2]int    // unanswered rows sent in the current and the previous interval, by its number modulo 2
}

// advance begins the interval of now.
func (r *inFlightLimit) advance(now time.Time) {
	if now.Before(r.intervalEnd) {
		return
	}
	if now.Sub(r.intervalEnd) >= recentInterval {
		r.recentRows = [2]int{}
		r.interval++
	}
	r.interval++
	r.recentRows[r.interval%2] = 0
	r.intervalEnd = now.Add(recentInterval)
}

// add counts the rows of a chunk that is sent, and returns its interval.
func (r *inFlightLimit) add(rows int, now time.Time) (interval int) {
	r.advance(now)
	r.unanswered += rows
	r.recentRows[r.interval%2] += rows
	return r.interval
}

// answered counts answers to rows that were sent in an interval.
func (r *inFlightLimit) answered(interval, rows int) {
	r.unanswered -= rows
	if r.interval-interval < len(r.recentRows) {
		r.recentRows[interval%2] -= rows
	}
}

// full reports whether no more rows may be sent, and for how long at most if none is answered; -1: until one is answered.
func (r *inFlightLimit) full(now time.Time) (full bool, wait time.Duration) {
	r.advance(now)
	switch {
	case r.unanswered >= maxUnanswered:
		return true, -1
	case r.recentRows[0]+r.recentRows[1] >= r.recentMax:
		return true, r.intervalEnd.Sub(now)
	}
	return false, -1
}
