package press

import (
	"sync/atomic"
	"time"
)

// Singles press while Least of them come in a Span.
const (
	Span  = 100 * time.Millisecond
	Least = 50
)

// Meter counts the calls of spans. It must not be copied.
type Meter struct {
	span atomic.Int64 // of Unix time, the one that is counted
	n    atomic.Int64 // calls in it
	had  atomic.Int64 // calls in the one before, if that was the span before
}

// late is how many spans a call may come after others: it waited for a processor between its look at the clock and its count. More
// tells of a clock that was set back.
const late = 10

// Called counts a single.
func (m *Meter) Called(now time.Time) {
	span := now.UnixNano() / int64(Span)
	was := m.span.Load()
	if behind := was - span; (behind < 0 || behind > late) && m.span.CompareAndSwap(was, span) {
		n := m.n.Load()
		if was == span-1 {
			m.had.Store(n)
		} else {
			m.had.Store(0)
		}
		m.n.Add(-n)
	}
	m.n.Add(1)
}

// On reports that singles press: in this span or in the one before.
func (m *Meter) On(now time.Time) bool {
	switch age := now.UnixNano()/int64(Span) - m.span.Load(); {
	case age == 1:
		return m.n.Load() >= Least
	case age <= 0 && age >= -late:
		return max(m.had.Load(), m.n.Load()) >= Least
	}
	return false
}
