package coordinator

import "time"

// Answers come quickly when so many rows are answered in so short a time.
const (
	quickRows = 16 << 10
	quickTime = 2 * time.Second
)

// room is how many rows may be asked and not answered. Rows that wait for budgets need much of it, or those of slow routes leave
// none to others. Rows that are answered quickly do not: more of them at a time end no earlier, and each is memory that the
// collector looks through, again and again (probity bench bulk: of ten lists at once, it ran a third more often with twice the room).
type room struct {
	quick int // rows, while answers come quickly

	since   time.Time // since when rows are counted
	counted int       // answered since
	brisk   bool      // the last quickRows came quickly
}

// answered counts rows.
func (r *room) answered(n int, now time.Time) {
	if r.counted += n; r.counted < quickRows {
		return
	}
	r.brisk = now.Sub(r.since) < quickTime
	r.since, r.counted = now, 0
}

// rows is how many there is room for, and for how long that holds if no more are answered: 0 is until then.
func (r *room) rows(now time.Time) (n int, holds time.Duration) {
	if left := quickTime - now.Sub(r.since); r.brisk && left > 0 {
		return r.quick, left
	}
	return maxAsked, 0
}
