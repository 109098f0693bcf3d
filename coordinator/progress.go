package coordinator

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

const msgUncounted = "duplicates that are done cannot be counted: the job shows the last count" // in the log

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

// classRate is the progress of a job's class, from which its ETA is estimated. The scheduler's mutex guards it.
type classRate struct {
	since    time.Time
	answered int
}

// rateOf returns the rate of a class, which begins with its first chunk. The scheduler is locked.
func (job *runningJob) rateOf(class string, now time.Time) *classRate {
	cr := job.rates[class]
	if cr == nil {
		cr = &classRate{since: now}
		job.rates[class] = cr
	}
	return cr
}

// expectedWeight is the weight, in rows, of the rate expected from the budgets: with few answered rows the measured rate says
// little.
const expectedWeight = 50

// eta estimates how long rows more rows take. While a class waits for a budget, the rate counts up to until, the end of that
// wait; zero: it does not wait.
func (cr *classRate) eta(rows int64, until, now time.Time, expected float64) time.Duration {
	if cr == nil || cr.answered == 0 {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	took, answered := float64(until.Sub(cr.since)), float64(cr.answered)
	if expected > 0 {
		took, answered = took+expectedWeight/expected*float64(time.Hour), answered+expectedWeight
	}
	return time.Duration(took / answered * float64(rows))
}

// recountEvery is the maximum age of a running job's count of finished duplicates. A count reads eight bytes per duplicate.
const recountEvery = 2 * time.Second

// duplicateCount is how many duplicates of a running job have the verdict of their first row. It is only displayed: if counting
// fails, the last count stays and the job goes on.
type duplicateCount struct {
	mu     sync.Mutex // guards all below, and is held while the file is read: concurrent callers wait for that count
	at     time.Time  // of the last try
	done   int64
	failed bool // the last try failed, and that is logged
}

// doneDuplicates counts again if the last count is old.
func (job *runningJob) doneDuplicates(now time.Time, oldest time.Duration) int64 {
	if job.record.Duplicates == 0 {
		return 0
	}
	d := &job.duplicates
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && now.Sub(d.at) < oldest {
		return d.done
	}
	n, err := job.c.countDuplicates(job.record, job.answered)
	if err == nil {
		d.done = n
	} else if !d.failed {
		job.c.log.Error(msgUncounted, "job", job.record.ID, "error", err)
	}
	d.at, d.failed = now, err != nil
	return d.done
}

// countDuplicates counts the duplicates whose first row is answered, in constant memory.
func (c *Coordinator) countDuplicates(j *store.Job, answered jobfiles.RowSet) (done int64, err error) {
	if j.Duplicates == 0 {
		return 0, nil
	}
	u, err := c.files.OpenUpload(j)
	if err != nil {
		return 0, err
	}
	err = u.EachDuplicate(func(_, first uint32) error {
		if answered.Has(first) {
			done++
		}
		return nil
	})
	return done, errors.Join(err, u.Close())
}
