package signin

import "time"

// The lock-out: after freeAttempts failures in a row, sign-ins with that login from that network are refused for a
// minute, then for twice as long after each further failure, up to maxLockout. Failures are reset a day after the last
// one.
const (
	freeAttempts  = 5
	firstLockout  = time.Minute
	maxLockout    = 15 * time.Minute
	forgetFailure = 24 * time.Hour
)

// Failures are the failures since the last success.
type Failures struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// after returns the failures with one more at now.
func (f Failures) after(now time.Time) Failures {
	if f.areOver(now) {
		f = Failures{}
	}
	return Failures{f.Count + 1, now.UTC()}
}

// areOver reports whether failures no longer count. Those from far ahead were counted while the clock was wrong.
func (f Failures) areOver(now time.Time) bool {
	return now.Sub(f.Last) > forgetFailure || f.Last.Sub(now) > maxLockout
}

// LockOut reports whether the failures are enough for a lock-out, which may be over.
func (f Failures) LockOut() bool { return f.Count >= freeAttempts }

// until returns when the lock-out ends.
func (f Failures) until() time.Time {
	if !f.LockOut() {
		return f.Last
	}
	return f.Last.Add(min(firstLockout<<min(f.Count-freeAttempts, 10), maxLockout))
}

// Forgotten returns the time from which the failures do not count any more.
func (f Failures) Forgotten() time.Time { return f.Last.Add(forgetFailure) }
