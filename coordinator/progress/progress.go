package progress

import (
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
)

const (
	rateSamples = 16          // points for the rate
	rateEvery   = time.Second // least time between two points
	stallAfter  = time.Minute // without a probed row: the ETA is then unknown
)

// Counts is the number of answered distinct addresses of a job, by reason. The engine knows the status of a reason.
type Counts [engine.Reasons]int64

// Answered returns the number of answered distinct addresses.
func (t *Counts) Answered() (n int64) {
	for _, m := range t {
		n += m
	}
	return n
}

// Totals is the number of distinct addresses of all jobs that were answered since the start of the process, by status.
type Totals [4]atomic.Int64

// Job is the progress of a running job. Its methods may be called from any goroutine.
type Job struct {
	Answered   jobfiles.RowSet // in the log, or soon
	Unresolved atomic.Int64    // rows whose domains are looked up again after a failure

	totals *Totals
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

// New makes the progress of a job with so many rows.
func New(rows int64, totals *Totals) *Job {
	return &Job{Answered: jobfiles.NewRowSet(rows), totals: totals}
}

// Replay adds a row that the log answers.
func (p *Job) Replay(row uint32, reason engine.Reason) {
	if p.Answered.Add(row) {
		p.counts[reason].Add(1)
	}
}

// Add adds an answered row. False: it was answered before.
func (p *Job) Add(row uint32, v *engine.Verdict) bool {
	if !p.Answered.Add(row) {
		return false
	}
	p.counts[v.Reason].Add(1)
	p.totals[v.Status].Add(1)
	return true
}

// Begin begins the rate: answers read from the log do not count for it.
func (p *Job) Begin(now time.Time) {
	t := p.Counts()
	n := t.Answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = []point{{now, n}}
	p.startedAt, p.answeredBefore, p.lastActivity = now, n, now
}

// NoteActivity records that rows were probed.
func (p *Job) NoteActivity(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastActivity = now
}

// Pace returns the recent rate in addresses per second, how long left more addresses take at the rate since the work started (0 if
// unknown), and whether no row was probed for stallAfter.
func (p *Job) Pace(left int64, now time.Time) (rate float64, eta time.Duration, stalled bool) {
	t := p.Counts()
	n := t.Answered()
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

// Counts returns the current counts.
func (p *Job) Counts() (t Counts) {
	for i := range p.counts {
		t[i] = p.counts[i].Load()
	}
	return t
}
