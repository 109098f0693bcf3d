package coordinator

import (
	"sync"
	"time"
)

// trust says from when on the wall clock may end something for good: delete results, cancel a paused job, end a job at its
// max_hours. A clock that was wrong, or is, must cost time and not data.
type trust struct {
	mu   sync.Mutex // guards from
	from time.Time  // with its monotonic reading
}

const (
	clockEvery = time.Minute
	smallStep  = time.Minute    // what slewing and a slow minute explain
	shortTrust = time.Hour      // after a start or a step of the clock
	longTrust  = 24 * time.Hour // where the clock is before what was noted last, or more than a day after it
)

// step takes in that the wall clock shows now, and by how much that is more than it should be. At a start it is not known how
// long it was off: all that has gone by since the last note counts.
func (k *trust) step(now time.Time, by time.Duration) {
	wait := shortTrust
	if by < -smallStep || by > longTrust {
		wait = longTrust
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if from := now.Add(wait); from.After(k.from) {
		k.from = from
	}
}

// over is when something ends that is to end at a time of the wall clock: not before the clock is trusted.
func (k *trust) over(at time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.Before(k.from) {
		return k.from
	}
	return at
}

// startClock compares the wall clock with the last one noted.
func (c *Coordinator) startClock(now time.Time) error {
	noted, err := c.cfg.Store.NotedClock()
	if err != nil {
		return err
	}
	by := time.Duration(0)
	if !noted.IsZero() {
		by = now.Sub(noted)
	}
	c.trust.step(now, by)
	if by < -smallStep {
		c.log.Warn("the clock is behind what it was: nothing expires for a day", "noted", noted, "now", now)
	}
	return c.cfg.Store.NoteClock(now)
}

// lookAtClock compares what the wall clock gained since before with the time that has gone by, and notes it.
func (c *Coordinator) lookAtClock(before, now time.Time) error {
	if by := stepOf(now.Round(0).Sub(before.Round(0)), now.Sub(before)); by != 0 {
		c.trust.step(now, by)
		c.log.Warn("the clock was set: nothing expires for a while", "by", by)
		c.desk.poke()
	}
	return c.cfg.Store.NoteClock(now)
}

// stepOf is how far the wall clock was set, 0 for next to nothing.
func stepOf(wall, elapsed time.Duration) time.Duration {
	if by := wall - elapsed; by.Abs() > smallStep {
		return by
	}
	return 0
}
