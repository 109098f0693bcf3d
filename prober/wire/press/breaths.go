package press

import (
	"runtime"
	"time"
)

// Breaths lets many who work on rows breathe one after another, or few at one time. Dozens of chunks are read, and dozens of batches begun, within a
// moment when a list has been split: while one of them rested, the work of the others kept every processor busy, and singles
// waited for 10 to 20 ms until that quarter of a second was over. Make it with NewBreaths.
type Breaths chan struct{}

// NewBreaths is for work that is to leave half of the processors to others: as many breathe at one time as that is, at least one.
func NewBreaths() Breaths { return make(Breaths, max(1, runtime.GOMAXPROCS(0)/2)) }

// Take waits for its turn, and then for d. It returns early when over is closed, which may be nil. As many wait as there are chunks
// and batches under way: the sender bounds them.
func (b Breaths) Take(d time.Duration, over <-chan struct{}) {
	select {
	case b <- struct{}{}:
	case <-over:
		runtime.Gosched()
		return
	}
	defer func() { <-b }()
	rest := time.NewTimer(d)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-over:
	}
}
