package retention

import (
	"sync"
	"time"

	"probity/store"
)

// Clock holds from when on the wall clock may end something for good: delete results, cancel a paused job, end a job at
// its max_hours. A wrong clock must cost time, not data.
type Clock struct {
	mu          sync.Mutex // guards trustedFrom
	trustedFrom time.Time  // with its monotonic reading
}

const (
	clockEvery    = time.Minute
	maxDrift      = time.Minute    // slewing and late timers explain this much
	shortDistrust = time.Hour      // after a start or a step of the clock
	longDistrust  = 24 * time.Hour // if the clock is before the saved one, or more than a day after it
)

// adjust records that the wall clock shows now, which is by more than expected. At a start the downtime is unknown: by
// is all the time since the saved clock.
func (c *Clock) adjust(now time.Time, by time.Duration) {
	wait := shortDistrust
	if by < -maxDrift || by > longDistrust {
		wait = longDistrust
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from := now.Add(wait); from.After(c.trustedFrom) {
		c.trustedFrom = from
	}
}

// NotBefore returns at, or when the clock is trusted again if that is later.
func (c *Clock) NotBefore(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Before(c.trustedFrom) {
		return c.trustedFrom
	}
	return at
}

// Deadline returns the time at which a job stops waiting for answers.
func (c *Clock) Deadline(j *store.Job) time.Time {
	return c.NotBefore(j.StartedAt.Add(time.Duration(j.MaxHours) * time.Hour))
}

// clockStep returns how far the wall clock was set, 0 if within maxDrift.
func clockStep(wall, elapsed time.Duration) time.Duration {
	if by := wall - elapsed; by.Abs() > maxDrift {
		return by
	}
	return 0
}
