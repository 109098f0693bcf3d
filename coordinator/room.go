package coordinator

import "time"

// lateSpan is what a row is given to be answered in before it counts as one that waits for a budget, and not for a processor: as
// long, or twice as long.
const lateSpan = 2 * time.Second

// room counts the rows that are asked and not answered: all of them, and those of chunks that went out lately. Rows that wait for
// budgets need much room, or those of slow routes leave none to others. Rows that wait for a processor need less: more of them at a
// time end no earlier, and the collector looks through each of them again and again (probity bench bulk: for ten lists at once it ran
// half as often again with twice as many).
type room struct {
	lately int // most rows that may have been sent lately

	asked int
	span  int       // the number of the present lateSpan
	ends  time.Time // when it does
	sent  [2]int    // rows of the chunks of this span and the one before, without an answer: by the span's number
}

// turn begins the span of now.
func (r *room) turn(now time.Time) {
	if now.Before(r.ends) {
		return
	}
	if now.Sub(r.ends) >= lateSpan {
		r.sent = [2]int{}
		r.span++
	}
	r.span++
	r.sent[r.span%2] = 0
	r.ends = now.Add(lateSpan)
}

// send counts the rows of a chunk that goes out, in the span that is returned.
func (r *room) send(rows int, now time.Time) (span int) {
	r.turn(now)
	r.asked += rows
	r.sent[r.span%2] += rows
	return r.span
}

// answered counts rows that were sent in a span.
func (r *room) answered(span, rows int) {
	r.asked -= rows
	if r.span-span < len(r.sent) {
		r.sent[span%2] -= rows
	}
}

// full reports that no more rows may be asked, and for how long at most if none is answered: -1 is until then.
func (r *room) full(now time.Time) (full bool, wait time.Duration) {
	r.turn(now)
	switch {
	case r.asked >= maxAsked:
		return true, -1
	case r.sent[0]+r.sent[1] >= r.lately:
		return true, r.ends.Sub(now)
	}
	return false, -1
}
