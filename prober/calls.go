package prober

import (
	"sync/atomic"
	"time"
)

// calls knows when this node was last asked for a single address, and whether many are asked for right now. While such calls come, bulk leaves them a fifth of each budget;
// where none does, that fifth would be a quarter more time for every list.
type calls struct {
	last  atomic.Int64 // of Unix time, in nanoseconds; 0 for never
	press press
}

// comeFor is how long after a call another is looked for: the longest span of a budget, so that what bulk has used of the
// reserve is free again before it is forgotten why.
const comeFor = time.Hour

func (c *calls) called(now time.Time) {
	c.last.Store(now.UnixNano())
	c.press.called(now)
}

// come reports that singles are to be looked for. They are where nobody counts them.
func (c *calls) come(now time.Time) bool {
	if c == nil {
		return true
	}
	last := c.last.Load()
	return last != 0 && now.UnixNano()-last < int64(comeFor)
}

// Singles press while so many come in each such span: then the processor is kept ready for the next. Of fewer, each waits a few
// milliseconds longer beside a list, and the list loses nothing.
const (
	pressSpan = 100 * time.Millisecond
	pressing  = 50
)

// press counts the calls of spans.
type press struct {
	span atomic.Int64 // of Unix time, the one that is counted
	n    atomic.Int64 // calls in it
	had  atomic.Int64 // calls in the one before, if that was the span before
}

func (p *press) called(now time.Time) {
	span := now.UnixNano() / int64(pressSpan)
	if was := p.span.Load(); was != span && p.span.CompareAndSwap(was, span) {
		had := p.n.Swap(0)
		if was != span-1 {
			had = 0
		}
		p.had.Store(had)
	}
	p.n.Add(1)
}

// on reports that singles press: in this span or in the one before.
func (p *press) on(now time.Time) bool {
	switch now.UnixNano()/int64(pressSpan) - p.span.Load() {
	case 0:
		return max(p.had.Load(), p.n.Load()) >= pressing
	case 1:
		return p.n.Load() >= pressing
	}
	return false
}
