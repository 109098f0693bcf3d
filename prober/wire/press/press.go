package press

import (
	"sync/atomic"
	"time"
)

// Singles press when Least of them have come in a Span, and for Hold after: the shorter the span, the sooner that is known; and a
// process that stood still for a moment, just when singles waited for it, has not forgotten them.
const (
	Span  = 20 * time.Millisecond
	Least = 10
	Hold  = 200 * time.Millisecond
)

// Meter counts the calls of spans. It must not be copied.
type Meter struct {
	span  atomic.Int64 // of Unix time, the one that is counted
	n     atomic.Int64 // calls in it
	until atomic.Int64 // they press, in nanoseconds of Unix time
}

// late is how long a call may come after others: it waited for a processor between its look at the clock and its count. More
// tells of a clock that was set back.
const late = time.Second

// Called counts a single.
func (m *Meter) Called(now time.Time) {
	at := now.UnixNano()
	span := at / int64(Span)
	was := m.span.Load()
	if behind := was - span; (behind < 0 || behind > int64(late/Span)) && m.span.CompareAndSwap(was, span) {
		m.n.Add(-m.n.Load())
	}
	if m.n.Add(1) < Least {
		return
	}
	until := at + int64(Hold)
	if ahead := m.until.Load() - until; ahead < 0 || ahead > int64(late) {
		m.until.Store(until)
	}
}

// On reports that singles press.
func (m *Meter) On(now time.Time) bool {
	left := m.until.Load() - now.UnixNano()
	return left > 0 && left <= int64(Hold+late)
}
