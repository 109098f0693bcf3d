package coordinator

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Singles press while so many come in each such span. Of fewer, each waits a few milliseconds longer beside a list, and the list
// loses nothing. A prober has the same rule for its sessions.
const (
	pressSpan = 100 * time.Millisecond
	pressing  = 50
)

// pressure counts the singles of spans.
type pressure struct {
	span atomic.Int64 // of Unix time, the one that is counted
	n    atomic.Int64 // singles in it
	had  atomic.Int64 // singles in the one before, if that was the span before
}

func (p *pressure) called(now time.Time) {
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
func (p *pressure) on(now time.Time) bool {
	switch now.UnixNano()/int64(pressSpan) - p.span.Load() {
	case 0:
		return max(p.had.Load(), p.n.Load()) >= pressing
	case 1:
		return p.n.Load() >= pressing
	}
	return false
}

// The rests of work on rows.
const (
	breath    = 128                  // rows between two: about a millisecond
	restTimes = 3                    // as long as the work before, while singles press
	longest   = 5 * time.Millisecond // of a rest
)

// breathe lets others have their turn every hundred rows or so. Left to the scheduler, work on rows has ten milliseconds at a
// time, and a single that finds a few of such before it waits for all of them.
func breathe(row int) {
	if row%breath == breath-1 {
		runtime.Gosched()
	}
}

// breather is breathe for the work of jobs. While singles press that is not enough: a process that always has something to do
// waits for the machine's scheduler each time that it has used up its turn, and a single waits with it. Then work on rows rests
// for most of the time, and the longer the slower it went.
type breather struct {
	press *pressure
	since time.Time
}

func (c *Coordinator) newBreather() breather { return breather{&c.press, time.Now()} }

// row is called for each row by its place.
func (b *breather) row(i int) {
	if i%breath != breath-1 {
		return
	}
	now := time.Now()
	if b.press.on(now) {
		time.Sleep(min(restTimes*now.Sub(b.since), longest))
		now = time.Now()
	} else {
		breathe(i)
	}
	b.since = now
}
