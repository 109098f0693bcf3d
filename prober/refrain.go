package prober

import (
	"sync"
	"time"
)

// refrain bounds how often the log says that a receiver wants no more of a source: where nothing is paced, and where a source is
// on a new blocklist, hundreds say so within seconds. The first few of a minute are said; the others are counted, and the count is
// said when the minute is over.
type refrain struct {
	mu           sync.Mutex // guards what follows
	since        time.Time
	said, unsaid int
}

const (
	refrainSpan = time.Minute
	refrainSaid = 3 // lines of a span
)

// says reports that one more may be said.
func (r *refrain) says(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsaid == 0 && now.Sub(r.since) >= refrainSpan {
		r.since, r.said = now, 0
	}
	if r.said == refrainSaid {
		r.unsaid++
		return false
	}
	r.said++
	return true
}

// rest is how many were not said, where the span is over; they are counted anew.
func (r *refrain) rest(now time.Time) (unsaid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= refrainSpan {
		unsaid, r.unsaid, r.said = r.unsaid, 0, 0
		r.since = now
	}
	return unsaid
}

// tellUnsaid logs how many quarantines were not.
func (p *Prober) tellUnsaid(now time.Time) {
	if n := p.refrain.rest(now); n > 0 {
		p.cfg.Log.Warn("other receivers, or the same again, wanted no more of a source; the lanes say which", "times", n)
	}
}
