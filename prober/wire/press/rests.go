package press

import "time"

// Rests lets many who work on rows rest one after another. Dozens of chunks are read, and dozens of batches begun, within a moment
// when a list has been split: while one rested, the work of the others kept every processor busy, and a single waited a quarter
// of a second in that throng for its ten milliseconds. Make it with NewRests.
type Rests chan struct{}

func NewRests() Rests { return make(Rests, 1) }

// Rest waits until the rests that were asked for before are over, and then for d.
func (r Rests) Rest(d time.Duration) {
	r <- struct{}{}
	time.Sleep(d)
	<-r
}
