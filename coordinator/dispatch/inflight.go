package dispatch

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
func (i *inFlightLimit) advance(now time.Time) {
	if now.Before(i.intervalEnd) {
		return
	}
	if now.Sub(i.intervalEnd) >= recentInterval {
		i.recentRows = [2]int{}
		i.interval++
	}
	i.interval++
	i.recentRows[i.interval%2] = 0
	i.intervalEnd = now.Add(recentInterval)
}

// add counts the rows of a chunk that is sent, and returns its interval.
func (i *inFlightLimit) add(rows int, now time.Time) (interval int) {
	i.advance(now)
	i.unanswered += rows
	i.recentRows[i.interval%2] += rows
	return i.interval
}

// answered counts answers to rows that were sent in an interval.
func (i *inFlightLimit) answered(interval, rows int) {
	i.unanswered -= rows
	if i.interval-interval < len(i.recentRows) {
		i.recentRows[interval%2] -= rows
	}
}

// full reports whether no more rows may be sent, and for how long at most if none is answered; -1: until one is answered.
func (i *inFlightLimit) full(now time.Time) (full bool, wait time.Duration) {
	i.advance(now)
	switch {
	case i.unanswered >= maxUnanswered:
		return true, -1
	case i.recentRows[0]+i.recentRows[1] >= i.recentMax:
		return true, i.intervalEnd.Sub(now)
	}
	return false, -1
}
