package coordinator

import (
	"runtime"
	"sync/atomic"
	"time"

	"probity/prober/wire/press"
)

// The rests of work on rows.
const (
	breath    = 128                   // rows between two: some tenths of a millisecond
	restTimes = 9                     // as long as the work before, while singles press
	longest   = 15 * time.Millisecond // of a rest
	hurried   = 8                     // breaths in one, where the desk has nothing to send
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
	press  *press.Meter
	since  time.Time
	hungry *atomic.Bool // nil where nobody waits for the rows
	// Where many do such work at one time; nil elsewhere.
	breaths press.Breaths
	over    <-chan struct{} // closed when nobody wants the rows any more
}

func (c *Coordinator) newBreather() breather { return breather{press: c.press, since: time.Now()} }

// newBreather is for splitting. While the desk has nothing to send, sessions by the hundred have their turn at each breath, only to
// run out of rows: what split in seconds took the better part of a minute so, and went out in chunks of a few rows.
func (l *live) newBreather() breather {
	b := l.c.newBreather()
	b.hungry = &l.hungry
	return b
}

// newBreather is for reading a chunk: many are read within a moment when a list has been split. Those of short lists do not wait
// until the long ones' have breathed.
func (f *flight) newBreather() breather {
	b := f.l.c.newBreather()
	b.over = f.l.ctx.Done()
	b.breaths = f.l.c.breaths
	if f.l.c.desk.isShort(f.l) {
		b.breaths = f.l.c.shortBreaths
	}
	return b
}

// row is called for each row by its place. A nil breather never rests.
func (b *breather) row(i int) {
	if b == nil || i%breath != breath-1 {
		return
	}
	now := time.Now()
	switch {
	case b.press.On(now):
		b.rest(min(restTimes*now.Sub(b.since), longest))
		now = time.Now()
	case b.hungry == nil || !b.hungry.Load() || i%(hurried*breath) == hurried*breath-1:
		breathe(i)
	}
	b.since = now
}

func (b *breather) rest(d time.Duration) {
	if b.breaths == nil {
		time.Sleep(d)
	} else {
		b.breaths.Take(d, b.over)
	}
}
