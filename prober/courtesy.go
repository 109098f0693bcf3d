package prober

import (
	"runtime"
	"time"
)

// breath is how many rows are worked on before others have their turn: a few tenths of a millisecond.
const breath = 128

// What a piece of work is paid with while singles press.
const (
	restTimes   = 2                    // as long as it took
	longestRest = 2 * time.Millisecond // at the most
)

// breathe lets others have their turn; while singles press, for longer than the work since the last breath took, one batch
// after another. Batches of short lists do not wait for those of long ones.
func (v *verification) breathe() {
	now := time.Now()
	if !v.p.calls.press.On(now) {
		runtime.Gosched()
		v.breathed = now
		return
	}
	v.flushLane() // who joins one of its probes shall not wait for the breath
	line := v.p.breaths
	if v.who == short {
		line = v.p.short
	}
	line.Take(min(restTimes*now.Sub(v.breathed), longestRest), v.over)
	v.breathed = time.Now()
}
