package readyqueue

import (
	"sync"
	"time"
)

// logLimiter limits log lines about quarantines: without budgets, or when a source is on a new blocklist, hundreds come within
// seconds. The first few of a minute are logged; the others are counted, and the count is logged when the minute is over.
type logLimiter struct {
	mu              sync.Mutex // guards what follows
	spanStart       time.Time
	logged, skipped int
}

const (
	LogSpan   = time.Minute
	maxLogged = 3 // lines per span
)

// allow reports that one more line may be logged, and counts it.
func (r *logLimiter) allow(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skipped == 0 && now.Sub(r.spanStart) >= LogSpan {
		r.spanStart, r.logged = now, 0
	}
	if r.logged == maxLogged {
		r.skipped++
		return false
	}
	r.logged++
	return true
}

// takeSkipped returns how many lines were skipped in a span that is over, and starts the next span.
func (r *logLimiter) takeSkipped(now time.Time) (skipped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.spanStart) >= LogSpan {
		skipped, r.skipped, r.logged = r.skipped, 0, 0
		r.spanStart = now
	}
	return skipped
}
