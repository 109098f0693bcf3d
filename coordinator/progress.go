package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/store"
)

const (
	rateSamples = 16          // points that the rate is measured over
	rateEvery   = time.Second // least time between two of them
	stallAfter  = time.Minute // without a row that was asked, no end can be told
)

// reasons is how many reasons there are, that of VALID included.
const reasons = engine.Reasons

// answerCounts is how far a job has come: how many distinct addresses were answered, by reason; a reason's status is engine's to tell.
type answerCounts [reasons]int64

func (t *answerCounts) answered() (n int64) {
	for _, m := range t {
		n += m
	}
	return n
}

// progress is what a running job shows of itself. It is a view for people: what is charged is counted from the log.
type progress struct {
	counts [reasons]atomic.Int64 // distinct addresses answered

	mu             sync.Mutex // guards all below
	startedAt      time.Time  // of this work, and what was answered before it
	answeredBefore int64
	lastActivity   time.Time // when a row was answered or put off last
	points         []point   // oldest first
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

// noteActivity notes that rows were asked.
func (p *progress) noteActivity(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastActivity = now
}

// stalled reports that no row was asked for long.
func (p *progress) stalled(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.lastActivity) > stallAfter
}

// eta is when so many addresses more are answered, at the pace since this work was begun; 0 when it cannot be told.
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

// rate is the addresses answered per second, lately.
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

// restart forgets the pace of before: what the log gave back was not answered now.
func (p *progress) restart(now time.Time) {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points[:0], point{now, n})
	p.startedAt, p.answeredBefore, p.lastActivity = now, n, now
}
