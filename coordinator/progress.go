package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
)

const (
	rateSamples = 16          // points for the rate
	rateEvery   = time.Second // least time between two points
	stallAfter  = time.Minute // without a probed row: the ETA is then unknown
)

// answerCounts is the number of answered distinct addresses of a job, by reason. The engine knows the status of a reason.
type answerCounts [engine.Reasons]int64

func (t *answerCounts) answered() (n int64) {
	for _, m := range t {
		n += m
	}
	return n
}

// progress is the displayed progress of a running job. Charges are counted from the log, not from here.
type progress struct {
	counts [engine.Reasons]atomic.Int64 // distinct addresses answered

	mu             sync.Mutex // guards all below
	startedAt      time.Time  // start of the current work
	answeredBefore int64      // answers before it
	lastActivity   time.Time  // when a row was last answered or deferred
	points         []point    // oldest first
}

type point struct {
	at time.Time
	n  int64
}

// begin begins the rate: answers read from the log do not count for it.
func (p *progress) begin(now time.Time) {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = []point{{now, n}}
	p.startedAt, p.answeredBefore, p.lastActivity = now, n, now
}

// noteActivity records that rows were probed.
func (p *progress) noteActivity(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastActivity = now
}

// pace returns the recent rate in addresses per second, how long left more addresses take at the rate since the work started (0 if
// unknown), and whether no row was probed for stallAfter.
func (p *progress) pace(left int64, now time.Time) (rate float64, eta time.Duration, stalled bool) {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.points[len(p.points)-1].at) >= rateEvery {
		if p.points = append(p.points, point{now, n}); len(p.points) > rateSamples {
			p.points = append(p.points[:0], p.points[1:]...)
		}
	}
	if first := p.points[0]; now.After(first.at) {
		rate = float64(n-first.n) / now.Sub(first.at).Seconds()
	}
	if n > p.answeredBefore {
		eta = time.Duration(float64(now.Sub(p.startedAt)) / float64(n-p.answeredBefore) * float64(left))
	}
	return rate, eta, now.Sub(p.lastActivity) > stallAfter
}

func (p *progress) answerCounts() (t answerCounts) {
	for i := range p.counts {
		t[i] = p.counts[i].Load()
	}
	return t
}

func (p *progress) answered() int64 {
	t := p.answerCounts()
	return t.answered()
}
