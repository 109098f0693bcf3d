package prober

import (
	"runtime"
	"time"
)

// breath is how many rows are worked on before others have their turn: a few tenths of a millisecond.
const breath = 128

// longestRest is the most that a piece of work is paid with, however long it took.
const longestRest = time.Millisecond

// breathe lets others have their turn; while singles press, for as long as the work since the last breath took, one batch after
// another.
func (v *verification) breathe() {
	now := time.Now()
	if !v.p.calls.press.On(now) {
		runtime.Gosched()
		v.rested = now
		return
	}
	v.p.rests.Rest(min(now.Sub(v.rested), longestRest))
	v.rested = time.Now()
}
