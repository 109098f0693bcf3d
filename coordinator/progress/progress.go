package progress

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
)

const (
	rateWindow  = 16 * time.Second // what the rate is over
	sampleEvery = time.Second      // least time between two samples
	stallAfter  = time.Minute      // without a probed row: the ETA is then unknown
)

// Counts is the number of answered distinct addresses of a job, by reason. The engine knows the status of a reason.
type Counts [engine.Reasons]int64

// Answered returns the number of answered distinct addresses.
func (c *Counts) Answered() (n int64) {
	for _, m := range c {
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
	samples        []sample   // oldest first; never empty after Begin
}

// sample is how many addresses were answered at a time.
type sample struct {
	at time.Time
	n  int64
}

// New makes the progress of a job with so many rows.
func New(rows int64, totals *Totals) *Job {
	return &Job{Answered: jobfiles.NewRowSet(rows), totals: totals}
}

// Replay adds a row that the log answers.
func (j *Job) Replay(row uint32, reason engine.Reason) {
	if j.Answered.Add(row) {
		j.counts[reason].Add(1)
	}
}

// Add adds an answered row. False: it was answered before.
func (j *Job) Add(row uint32, v *engine.Verdict) bool {
	if !j.Answered.Add(row) {
		return false
	}
	j.counts[v.Reason].Add(1)
	j.totals[v.Status].Add(1)
	return true
}

// Begin begins the rate: answers read from the log do not count for it.
func (j *Job) Begin(now time.Time) {
	t := j.Counts()
	n := t.Answered()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.samples = []sample{{now, n}}
	j.startedAt, j.answeredBefore, j.lastActivity = now, n, now
}

// RecordActivity records that rows were probed.
func (j *Job) RecordActivity(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lastActivity = now
	j.sample(now)
}

// sample adds a sample if the last one is old enough. It keeps those of the rateWindow, and one before them. The mutex
// is held.
func (j *Job) sample(now time.Time) {
	if now.Sub(j.samples[len(j.samples)-1].at) < sampleEvery {
		return
	}
	t := j.Counts()
	j.samples = append(j.samples, sample{now, t.Answered()})
	old := 0
	for now.Sub(j.samples[old+1].at) >= rateWindow {
		old++
	}
	j.samples = slices.Delete(j.samples, 0, old)
}

// SampleRate takes a sample. It returns the recent rate in addresses per second, how long left more addresses take at
// the rate since the work started (0 if unknown), and whether no row was probed for stallAfter.
func (j *Job) SampleRate(left int64, now time.Time) (rate float64, eta time.Duration, stalled bool) {
	t := j.Counts()
	n := t.Answered()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sample(now)
	if first := j.samples[0]; now.After(first.at) {
		rate = float64(n-first.n) / now.Sub(first.at).Seconds()
	}
	if n > j.answeredBefore {
		eta = time.Duration(float64(now.Sub(j.startedAt)) / float64(n-j.answeredBefore) * float64(left))
	}
	return rate, eta, now.Sub(j.lastActivity) > stallAfter
}

// Counts returns the current counts.
func (j *Job) Counts() (t Counts) {
	for i := range j.counts {
		t[i] = j.counts[i].Load()
	}
	return t
}
