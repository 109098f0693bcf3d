package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/store"
)

const (
	rateSamples = 16          // points for the rate
	rateEvery   = time.Second // least time between two points
	stallAfter  = time.Minute // without a probed row: the ETA is then unknown
)

// reasons is the number of reasons, including that of VALID.
const reasons = engine.Reasons

// answerCounts is the number of answered distinct addresses of a job, by reason. The engine knows the status of a reason.
type answerCounts [reasons]int64

func (t *answerCounts) answered() (n int64) {
	for _, m := range t {
		n += m
	}
	return n
}

// progress is the displayed progress of a running job. Charges are counted from the log, not from here.
type progress struct {
	counts [reasons]atomic.Int64 // distinct addresses answered

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

func (p *progress) begin(_ *store.Job, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points[:0], point{at: now})
	p.startedAt, p.lastActivity = now, now
}

// noteActivity records that rows were probed.
func (p *progress) noteActivity(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastActivity = now
}

// stalled reports that no row was probed for stallAfter.
func (p *progress) stalled(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.lastActivity) > stallAfter
}

// eta estimates how long left more addresses take, at the rate since the work started; 0 if unknown.
func (p *progress) eta(left int64, now time.Time) time.Duration {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == p.answeredBefore {
		return 0
	}
	return time.Duration(float64(now.Sub(p.startedAt)) / float64(n-p.answeredBefore) * float64(left))
}

func (p *progress) count(r engine.Reason) { p.counts[r].Add(1) }

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

// rate returns the recent rate in addresses per second.
func (p *progress) rate(now time.Time) float64 {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.points[len(p.points)-1]
	if now.Sub(last.at) >= rateEvery {
		if p.points = append(p.points, point{now, n}); len(p.points) > rateSamples {
			p.points = append(p.points[:0], p.points[1:]...)
		}
	}
	first := p.points[0]
	if took := now.Sub(first.at).Seconds(); took > 0 {
		return float64(n-first.n) / took
	}
	return 0
}

// restart resets the rate: answers read from the log do not count for it.
func (p *progress) restart(now time.Time) {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points[:0], point{now, n})
	p.startedAt, p.answeredBefore, p.lastActivity = now, n, now
}
