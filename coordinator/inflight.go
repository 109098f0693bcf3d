package coordinator

import "time"

// recentInterval is what a row is given to be answered in before it counts as one that waits for a budget, and not for a processor: as
// long, or twice as long.
const recentInterval = 2 * time.Second

// inFlightLimit counts the rows that are asked and not answered: all of them, and those of chunks that went out lately. Rows that wait for
// budgets need a high limit, or those of slow routes leave nothing to others. Rows that wait for a processor need less: more of them at a
// time end no earlier, and the collector looks through each of them again and again (probity bench bulk: for ten lists at once it ran
// half as often again with twice as many).
type inFlightLimit struct {
	recentMax int // most rows that may have been sent lately

	unanswered  int
	interval    int       // the number of the present recentInterval
	intervalEnd time.Time // when it does
	recentRows  [2]int    // rows of the chunks of this span and the one before, without an answer: by the span's number
}

// advance begins the span of now.
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

// add counts the rows of a chunk that goes out, in the span that is returned.
func (r *inFlightLimit) add(rows int, now time.Time) (interval int) {
	r.advance(now)
	r.unanswered += rows
	r.recentRows[r.interval%2] += rows
	return r.interval
}

// answered counts rows that were sent in a span.
func (r *inFlightLimit) answered(interval, rows int) {
	r.unanswered -= rows
	if r.interval-interval < len(r.recentRows) {
		r.recentRows[interval%2] -= rows
	}
}

// full reports that no more rows may be asked, and for how long at most if none is answered: -1 is until then.
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
