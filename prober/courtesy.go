package prober

import (
	"runtime"
	"time"
)

// breath is how many rows are worked on before others have their turn: a few tenths of a millisecond. To sort a batch takes longer.
const breath = 128

// What a piece of work is paid with while singles press.
const (
	restTimes   = 6                    // as long as it took
	longestRest = 6 * time.Millisecond // at the most
)

// breathe lets others have their turn; while singles press, for longer than a piece of work takes, and no more batches at one time
// than Breaths allow. Batches of short lists do not wait for those of long ones. What was admitted before is under way meanwhile.
func (v *verification) breathe() {
	now := time.Now()
	if !v.p.calls.pressing(now) {
		runtime.Gosched()
		v.breathed = now
		return
	}
	v.flushLane()
	line := v.p.breaths
	if v.who == short {
		line = v.p.shortBreaths
	}
	line.Take(min(restTimes*now.Sub(v.breathed), longestRest), v.over)
	v.drain()
	v.breathed = time.Now()
	if v.breathed.Sub(v.sent) >= v.p.cfg.Flush {
		v.send(false)
	}
}
