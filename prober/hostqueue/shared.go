package hostqueue

import (
	"net/netip"
	"time"
)

// Lookup is where a host is asked, and how that is known.
type Lookup struct {
	Addr    netip.Addr // the zero Addr if it has none
	At      time.Time  // of the last lookup; zero before the first
	Running bool
}

// lookupLife is how long the looked-up address of a host holds; the resolver caches as long as DNS allows.
const lookupLife = time.Minute

// Expired reports whether the last lookup is too old.
func (l *Lookup) Expired(now time.Time) bool { return now.Sub(l.At) >= lookupLife }

// SharedWait is a host's wait for a connection that it shares with others: it has not begun, lasts, or was given up.
type SharedWait struct {
	Since  time.Time // zero unless it lasts
	GaveUp bool      // none came: the host needs a connection of its own
}

// Begin returns false if the wait lasts already.
func (w *SharedWait) Begin(now time.Time) bool {
	if !w.Since.IsZero() {
		return false
	}
	*w = SharedWait{Since: now}
	return true
}

// GiveUp ends the wait without a connection.
func (w *SharedWait) GiveUp() { *w = SharedWait{GaveUp: true} }

// End ends the wait, whatever became of it: a connection has come, or nothing waits for one.
func (w *SharedWait) End() { *w = SharedWait{} }
