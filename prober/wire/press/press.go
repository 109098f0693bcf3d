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

// Called counts a single.
func (m *Meter) Called(now time.Time) {
	span := now.UnixNano() / int64(Span)
	// One that is late by a span counts with those of now; one that comes from further back tells of a clock that was set back.
	if was := m.span.Load(); was != span && was != span+1 && m.span.CompareAndSwap(was, span) {
		had := m.n.Swap(0)
		if was != span-1 {
			had = 0
		}
		m.had.Store(had)
	}
	m.n.Add(1)
}

// On reports that singles press: in this span or in the one before.
func (m *Meter) On(now time.Time) bool {
	switch now.UnixNano()/int64(Span) - m.span.Load() {
	case -1, 0:
		return max(m.had.Load(), m.n.Load()) >= Least
	case 1:
		return m.n.Load() >= Least
	}
	return false
}
