package coordinator

import (
	"sync"
	"time"
)

// clockTrust says from when on the wall clock may end something for good: delete results, cancel a paused job, end a job at its
// max_hours. A clock that was wrong, or is, must cost time and not data.
type clockTrust struct {
	mu          sync.Mutex // guards from
	trustedFrom time.Time  // with its monotonic reading
}

const (
	clockEvery    = time.Minute
	maxDrift      = time.Minute    // what slewing and a slow minute explain
	shortDistrust = time.Hour      // after a start or a step of the clock
	longDistrust  = 24 * time.Hour // where the clock is before what was noted last, or more than a day after it
)

// adjust takes in that the wall clock shows now, and by how much that is more than it should be. At a start it is not known how
// long it was off: all that has gone by since the last note counts.
func (k *clockTrust) adjust(now time.Time, by time.Duration) {
	wait := shortDistrust
	if by < -maxDrift || by > longDistrust {
		wait = longDistrust
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if from := now.Add(wait); from.After(k.trustedFrom) {
		k.trustedFrom = from
	}
}

// notBefore is when something ends that is to end at a time of the wall clock: not before the clock is trusted.
func (k *clockTrust) notBefore(at time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.Before(k.trustedFrom) {
		return k.trustedFrom
	}
	return at
}

// checkClockAtStart compares the wall clock with the last one noted.
func (c *Coordinator) checkClockAtStart(now time.Time) error {
	savedClock, err := c.cfg.Store.SavedClock()
	if err != nil {
		return err
	}
	by := time.Duration(0)
	if !savedClock.IsZero() {
		by = now.Sub(savedClock)
	}
	c.clockTrust.adjust(now, by)
	if by < -maxDrift {
		c.log.Warn("the clock is behind what it was: nothing expires for a day", "noted", savedClock, "now", now)
	}
	return c.cfg.Store.SaveClock(now)
}

// checkClock compares what the wall clock gained since before with the time that has gone by, and notes it.
func (c *Coordinator) checkClock(before, now time.Time) error {
	if by := clockStep(now.Round(0).Sub(before.Round(0)), now.Sub(before)); by != 0 {
		c.clockTrust.adjust(now, by)
		c.log.Warn("the clock was set: nothing expires for a while", "by", by)
		c.scheduler.notify()
	}
	return c.cfg.Store.SaveClock(now)
}

// clockStep is how far the wall clock was set, 0 for next to nothing.
func clockStep(wall, elapsed time.Duration) time.Duration {
	if by := wall - elapsed; by.Abs() > maxDrift {
		return by
	}
	return 0
}
