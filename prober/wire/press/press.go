package press

import (
	"sync"
	"sync/atomic"
	"time"
)

// Single calls are load when they come faster than Rate: from the call at which Least of them are above it, until each
// has had the time that Rate gives it. Ten calls at once are load for a moment. The longer calls come faster than Rate,
// the longer the load lasts, but never longer than Longest after the last.
const (
	Rate    = 500 // a second
	Least   = 10
	Longest = 200 * time.Millisecond
)

// worth is the time that Rate gives to each call.
const worth = time.Second / Rate

// Meter is a bucket that leaks. It must not be copied.
type Meter struct {
	until atomic.Int64 // when the load ends, in nanoseconds of Unix time

	mu    sync.Mutex // guards what follows
	last  int64      // the newest time of a call
	empty int64      // when all that came have had their time
}

// late is how long a call may come after others: it waited for a processor between reading the clock and being counted.
// More means that the clock was set back.
const late = time.Second

// Called counts a single call.
func (m *Meter) Called(now time.Time) {
	at := now.UnixNano()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last-at > int64(late) {
		m.last, m.empty = at, at
		m.until.Store(0)
	}
	m.last = max(m.last, at)
	m.empty = min(max(m.empty, m.last)+int64(worth), m.last+int64(Longest))
	if m.empty-m.last >= Least*int64(worth) || m.until.Load() > m.last {
		m.until.Store(m.empty)
	}
}

// On reports whether the node is under single-call load.
func (m *Meter) On(now time.Time) bool {
	left := m.until.Load() - now.UnixNano()
	return left > 0 && left <= int64(Longest+late)
}
