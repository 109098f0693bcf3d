package prober

import (
	"sync"
	"time"
)

// logLimiter bounds how often the log says that a receiver wants no more of a source: where nothing is paced, and where a source is
// on a new blocklist, hundreds say so within seconds. The first few of a minute are said; the others are counted, and the count is
// said when the minute is over.
type logLimiter struct {
	mu              sync.Mutex // guards what follows
	spanStart       time.Time
	logged, skipped int
}

const (
	logSpan   = time.Minute
	maxLogged = 3 // lines of a span
)

// allow reports that one more may be said.
func (r *logLimiter) allow(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skipped == 0 && now.Sub(r.spanStart) >= logSpan {
		r.spanStart, r.logged = now, 0
	}
	if r.logged == maxLogged {
		r.skipped++
		return false
	}
	r.logged++
	return true
}

// takeSkipped is how many were not said, where the span is over; they are counted anew.
func (r *logLimiter) takeSkipped(now time.Time) (skipped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.spanStart) >= logSpan {
		skipped, r.skipped, r.logged = r.skipped, 0, 0
		r.spanStart = now
	}
	return skipped
}

// logSkipped logs how many quarantines were not.
func (p *Prober) logSkipped(now time.Time) {
	if n := p.quarantineLog.takeSkipped(now); n > 0 {
		p.cfg.Log.Warn("other receivers, or the same again, wanted no more of a source; the lanes say which", "times", n)
	}
}
