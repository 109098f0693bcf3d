package dispatch

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
)

// Limits of what is in flight at the prober, of each job.
const (
	chunksPerRoute    = 2  // dispatched chunks of one route of a job: one is probed while the next is ready
	chunksPerProvider = 16 // of one provider that many sources share, or of the tail
)

// Config configures a Scheduler. A zero value means the stated default.
type Config struct {
	Prober        wire.Prober
	Table         func() *engine.Table // the current one
	Sources       func() int           // egress sources of the prober; nil: unknown
	Hold          time.Duration        // how long a prober may keep a chunk: 60 s
	MaxRecentRows int                  // most unanswered rows that were sent in the last 2 to 4 s: all unanswered rows
	Log           *slog.Logger
}

// sourceCount returns how many egress sources the prober has; 0: unknown.
func (c *Config) sourceCount() int {
	if c.Sources == nil {
		return 0
	}
	return c.Sources()
}

// Scheduler decides which chunk is sent next: job by job, class by class, so that neither a long job nor a slow route
// delays others. It holds only chunk records; rows are read when a chunk is sent. Its methods may be called from any
// goroutine.
type Scheduler struct {
	cfg     Config
	budgets classBudgets
	wake    pipeline.Wake

	mu               sync.Mutex // guards all below, and the queues of every running job
	jobs             []*Job
	nextJob          int
	dispatchedRows   int           // rows of dispatched chunks
	inFlight         inFlightLimit // of the unanswered ones
	limitReached     bool          // nothing was sent because of inFlight
	idle             bool          // below the limits, but no job had anything to send
	dispatchedChunks int
}

// New makes a scheduler. It sends nothing before Run.
func New(cfg Config) *Scheduler {
	cfg.Hold = cmp.Or(cfg.Hold, defaultHold)
	return &Scheduler{
		cfg: cfg, budgets: classBudgets{table: cfg.Table, sources: cfg.Sources}, wake: pipeline.NewWake(),
		inFlight: inFlightLimit{recentMax: cfg.MaxRecentRows},
	}
}

const defaultHold = 60 * time.Second

// classQueue is the chunks of one class of one job.
type classQueue struct {
	class          string
	ready          []chunks.Chunk
	rows           int             // rows of ready chunks
	dispatched     int             // dispatched chunks
	dispatchedRows int             // rows of dispatched chunks
	unanswered     int             // of these, unanswered rows
	budgetWait     wire.BudgetWait // of these, rows that wait for a budget, as probers last reported
	maxChunks      int             // limit of dispatched
	ofOneRoute     bool            // else of a provider that many sources share, or the tail
	pausedUntil    time.Time       // until then the class's budget is used up, according to a prober
	eligible       bool            // is in Job.eligible
}

// delayedItem is a chunk, or a whole class, that waits until at.
type delayedItem struct {
	at    time.Time
	chunk chunks.Chunk
	queue *classQueue // set when the class waits
}

type delayHeap []delayedItem

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h delayHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayHeap) Push(x any)        { *h = append(*h, x.(delayedItem)) }
func (h *delayHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Run sends chunks until ctx ends. Chunks in flight then are their jobs' own: see Job.Stop.
func (s *Scheduler) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next, wait := s.pick(time.Now())
		if next == nil {
			s.sleep(ctx, wait)
			continue
		}
		go next.run()
	}
}

const maxSleep = time.Minute

func (s *Scheduler) sleep(ctx context.Context, wait time.Duration) {
	if wait < 0 || wait > maxSleep { // in case the clock is set or a notification is lost
		wait = maxSleep
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-s.wake:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Wake makes the scheduler look again, as after a step of the clock.
func (s *Scheduler) Wake() { s.wake.Notify() }

// pick takes the next chunk that may be sent, from the next job with one; else it returns how long to wait, -1 if
// unknown.
func (s *Scheduler) pick(now time.Time) (*dispatchedChunk, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = false
	most := limitsFor(s.cfg.sourceCount())
	full, wait := s.inFlight.full(most.unanswered, now)
	s.limitReached = full
	if full || s.dispatchedRows >= most.dispatchedRows || s.dispatchedChunks >= most.chunks {
		return nil, wait
	}
	for range s.jobs {
		job := s.jobs[s.nextJob%len(s.jobs)]
		s.nextJob++
		for len(job.delayed) > 0 && !job.delayed[0].at.After(now) { // due items go to their queues
			x := heap.Pop(&job.delayed).(delayedItem)
			if x.queue != nil {
				job.markEligible(x.queue, now)
			} else {
				job.enqueue(x.chunk, now)
			}
		}
		if q := job.nextEligible(); q != nil {
			c := q.ready[0]
			q.ready = q.ready[1:]
			q.rows -= int(c.Rows)
			q.dispatchedRows += int(c.Rows)
			q.unanswered += int(c.Rows)
			q.dispatched++
			job.markEligible(q, now)
			job.rateOf(q.class, now)
			s.dispatchedRows += int(c.Rows)
			s.dispatchedChunks++
			job.dispatched.Add(1)
			dc := &dispatchedChunk{job: job, queue: q, chunk: c, interval: s.inFlight.add(int(c.Rows), now),
				open: int(c.Rows)}
			job.sent[dc] = true
			return dc, 0
		}
		job.wantsMore.Store(true)
		if len(job.delayed) > 0 {
			if w := max(job.delayed[0].at.Sub(now), time.Millisecond); wait < 0 || w < wait {
				wait = w
			}
		}
	}
	s.idle = true
	return nil, wait
}

// answered stops counting n rows of a chunk that a prober has finished, and records which of the others wait there for
// a budget.
func (s *Scheduler) answered(dc *dispatchedChunk, n int, waits wire.BudgetWait) {
	job, q, now := dc.job, dc.queue, time.Now()
	s.mu.Lock()
	s.inFlight.answered(dc.interval, n)
	q.unanswered -= n
	dc.open -= n
	q.budgetWait.Rows += waits.Rows - dc.budgetWait.Rows
	if waits.Rows > 0 {
		q.budgetWait.Until = waits.Until
		job.rateOf(q.class, now).waited = true
	}
	dc.budgetWait = waits
	full, _ := s.inFlight.full(limitsFor(s.cfg.sourceCount()).unanswered, now)
	wasEligible := q.eligible
	job.markEligible(q, now)
	wakeNeeded := s.limitReached && !full || !wasEligible && q.eligible
	s.mu.Unlock()
	if wakeNeeded {
		s.wake.Notify()
	}
}

// chunkReturned stops counting a chunk. The class of a single route pauses until its budget allows more, as the prober
// says.
func (s *Scheduler) chunkReturned(dc *dispatchedChunk) {
	job := dc.job
	q := dc.queue
	left := dc.unanswered
	until := dc.budgetPause()
	if dc.rows == nil { // it was not read
		left = int(dc.chunk.Rows)
	}
	s.mu.Lock()
	delete(job.sent, dc)
	job.rateOf(q.class, time.Now()).answered += dc.answered
	s.dispatchedRows -= int(dc.chunk.Rows)
	s.inFlight.answered(dc.interval, left)
	s.dispatchedChunks--
	q.dispatchedRows -= int(dc.chunk.Rows)
	q.unanswered -= left
	q.budgetWait.Rows -= dc.budgetWait.Rows
	dc.budgetWait = wire.BudgetWait{}
	q.dispatched--
	now := time.Now()
	until = boundedDue(until, longestWait(s.cfg.Table()), now)
	if q.ofOneRoute && until.After(now) && until.After(q.pausedUntil) {
		q.pausedUntil = until
		heap.Push(&job.delayed, delayedItem{at: until, queue: q})
	}
	job.markEligible(q, now)
	s.mu.Unlock()
	s.wake.Notify()
}

// add adds chunks of a job to their queues, or to delayed if they are not due.
func (s *Scheduler) add(job *Job, added []chunks.Chunk) {
	s.mu.Lock()
	now := time.Now()
	most := longestWait(s.cfg.Table())
	for _, c := range added {
		c.NotBefore = boundedDue(c.NotBefore, most, now)
		if c.NotBefore.After(now) {
			heap.Push(&job.delayed, delayedItem{at: c.NotBefore, chunk: c})
		} else {
			job.enqueue(c, now)
		}
	}
	job.wantsMore.Store(false)
	s.mu.Unlock()
	s.wake.Notify()
}

// longestWait is the longest time that a row may wait: for a retry after a deferral, or for an hourly budget.
func longestWait(t *engine.Table) time.Duration {
	return max(time.Hour, slices.Max(append([]time.Duration{0}, t.Schedule...))) + time.Minute
}

// boundedDue converts a due time to the monotonic clock, so that a later step of the wall clock does not prolong the
// wait. The wait is at most most: the clock may have been set while the process was down.
func boundedDue(at time.Time, most time.Duration, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(min(at.Sub(now), most))
}
