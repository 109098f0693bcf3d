package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/store"
)

const (
	paceSamples = 16          // points that the rate is measured over
	paceEvery   = time.Second // least time between two of them
)

// progress is what a running job shows of itself. It is a view for people: what is charged is counted from the log.
type progress struct {
	counts [4]atomic.Int64 // distinct addresses answered, by status

	mu     sync.Mutex // guards the samples
	points []point    // oldest first
}

type point struct {
	at time.Time
	n  int64
}

func (p *progress) begin(_ *store.Job, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points[:0], point{at: now})
}

func (p *progress) count(s engine.Status, n int64) { p.counts[s].Add(n) }

func (p *progress) answered() int64 {
	var n int64
	for i := range p.counts {
		n += p.counts[i].Load()
	}
	return n
}

// rate is the addresses answered per second, lately.
func (p *progress) rate(now time.Time) float64 {
	n := p.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.points[len(p.points)-1]
	if now.Sub(last.at) >= paceEvery {
		if p.points = append(p.points, point{now, n}); len(p.points) > paceSamples {
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
}

// Snapshot is a job's record with what is known of it at this moment.
type Snapshot struct {
	store.Job
	Answered     int64                   // distinct addresses that have their verdict
	Processed    int64                   // rows that are done: never more than is certain
	ByStatus     map[engine.Status]int64 // distinct addresses while the job runs, rows once it is finished
	Rate         float64                 // addresses per second, lately; 0 when the job does not run
	ETA          time.Duration           // at this rate; 0 when it cannot be told
	PendingRetry int64                   // rows that wait for their next attempt or for budget
	Waiting      []Slow                  // the classes with the most rows ready and not under way
}

// Slow is a class whose rows wait.
type Slow struct {
	Class string
	Rows  int64
	Until time.Time // zero: no pause was asked for
}

const maxSlow = 10

// Snapshot is the present state of a job.
func (c *Coordinator) Snapshot(id string) (Snapshot, error) {
	j, err := c.cfg.Store.Job(id)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Job: *j, ByStatus: map[engine.Status]int64{}}
	if j.State.Finished() && j.Counts != nil {
		s.Answered, s.Processed = j.Unique, j.Rows
		for i := engine.Unknown; i <= engine.Invalid; i++ {
			s.ByStatus[i] = j.Counts[i.String()]
		}
		return s, nil
	}
	if l := c.liveOf(id); l != nil {
		l.describe(&s, time.Now())
		return s, nil
	}
	c.describeResting(&s)
	return s, nil
}

// describeResting tells of a job that is not worked on at this moment what was known when it was: it pauses, or its
// result is being written. After a restart nothing is known until work goes on.
func (c *Coordinator) describeResting(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runners[s.ID]
	if r == nil {
		return
	}
	for i, n := range r.seen {
		s.ByStatus[engine.Status(i)] = n
		s.Answered += n
	}
	if s.Answered > 0 {
		s.Processed = s.Answered + s.Blank
	}
	if s.State == store.JobFinalizing && !s.Cancelled {
		s.Processed = s.Rows
	}
}

func (l *live) describe(s *Snapshot, now time.Time) {
	for i := range l.progress.counts {
		n := l.progress.counts[i].Load()
		s.ByStatus[engine.Status(i)] = n
		s.Answered += n
	}
	s.Processed = s.Answered + l.job.Blank
	if s.Answered == l.job.Unique {
		s.Processed = l.job.Rows
	}
	s.Rate = l.progress.rate(now)
	if s.Rate > 0 {
		s.ETA = time.Duration(float64(l.job.Unique-s.Answered) / s.Rate * float64(time.Second))
	}
	l.c.desk.describe(l, s, now)
}

// describe adds what waits at the desk.
func (d *desk) describe(l *live, s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.PendingRetry = l.waiting
	for _, q := range l.queues {
		w := Slow{Class: q.class, Until: q.until}
		for i := range q.ready {
			w.Rows += int64(q.ready[i].Rows)
		}
		if w.Rows == 0 {
			continue
		}
		if q.until.After(now) {
			s.PendingRetry += w.Rows // its budget allows none of them yet
		}
		s.Waiting = append(s.Waiting, w)
		for i := len(s.Waiting) - 1; i > 0 && s.Waiting[i].Rows > s.Waiting[i-1].Rows; i-- {
			s.Waiting[i], s.Waiting[i-1] = s.Waiting[i-1], s.Waiting[i]
		}
		s.Waiting = s.Waiting[:min(len(s.Waiting), maxSlow)]
	}
}
