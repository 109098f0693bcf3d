package dispatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/jobfiles"
	"probity/coordinator/progress"
	"probity/store"
)

// JobConfig is what a Job needs of a running job.
type JobConfig struct {
	Record   *store.Job // as it was when the work started
	File     *chunks.File
	Log      *jobfiles.RowsLog
	Progress *progress.Job
	Fail     func(error) // ends the work
}

// Job is the chunks of a running job: ready, delayed and in flight.
type Job struct {
	scheduler  *Scheduler
	cfg        JobConfig
	ctx        context.Context // set by Start
	dispatched sync.WaitGroup
	decoys     answeredDecoys

	// The scheduler's mutex guards these.
	queues   map[string]*classQueue
	sent     map[*dispatchedChunk]bool // in flight
	eligible []*classQueue
	picks    int // counts the picks from eligible
	rates    map[string]*classRate
	delayed  delayHeap

	chunkCount atomic.Int64 // chunks that exist
	splitDone  atomic.Bool
	wantsMore  atomic.Bool // the scheduler has nothing ready: flush the open chunks

	finished chan struct{} // closed when no row is left to probe
	finish   sync.Once
}

// NewJob makes a job without chunks. None is sent before Start.
func (s *Scheduler) NewJob(cfg JobConfig) *Job {
	return &Job{
		scheduler: s, cfg: cfg, queues: map[string]*classQueue{}, sent: map[*dispatchedChunk]bool{},
		rates: map[string]*classRate{}, finished: make(chan struct{}),
		decoys: answeredDecoys{hashes: jobfiles.NewRowSet(decoyBits)},
	}
}

// Start lets the scheduler send chunks of the job. They come back early when ctx ends.
func (job *Job) Start(ctx context.Context) {
	d := job.scheduler
	d.mu.Lock()
	job.ctx = ctx
	d.jobs = append(d.jobs, job)
	d.mu.Unlock()
	d.wake.Notify()
}

// Stop lets the scheduler send no more. Wait waits for what it has sent.
func (job *Job) Stop() {
	d := job.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = slices.DeleteFunc(d.jobs, func(other *Job) bool { return other == job })
}

// Wait waits for the chunks in flight, after Stop.
func (job *Job) Wait() { job.dispatched.Wait() }

// Finished is closed when the job is split and no chunk of it exists: no row is left to probe.
func (job *Job) Finished() <-chan struct{} { return job.finished }

// Add adds new chunks.
func (job *Job) Add(made []chunks.Chunk) {
	job.chunkCount.Add(int64(len(made)))
	job.scheduler.add(job, made)
}

// SplitDone records that no more chunks will be added.
func (job *Job) SplitDone() {
	job.splitDone.Store(true)
	job.checkFinished()
}

// checkFinished ends the work when the split is done and no chunk exists.
func (job *Job) checkFinished() {
	if job.splitDone.Load() && job.chunkCount.Load() == 0 {
		job.finish.Do(func() { close(job.finished) })
	}
}

// enqueue appends a chunk to its class. The scheduler is locked.
func (job *Job) enqueue(c chunks.Chunk, now time.Time) {
	q := job.queues[c.Class]
	if q == nil {
		q = &classQueue{class: c.Class, maxChunks: chunksPerRoute, ofOneRoute: true}
		if p := job.scheduler.cfg.Table().Provider(c.Class); c.Class == chunks.ClassTail || p != nil && p.Shared() {
			q.maxChunks, q.ofOneRoute = chunksPerProvider, false
		}
		job.queues[c.Class] = q
	}
	q.ready = append(q.ready, c)
	q.rows += int(c.Rows)
	job.markEligible(q, now)
}

// markEligible adds a class to the eligible ones if one of its chunks may be sent, and removes an empty class. The
// scheduler is locked.
func (job *Job) markEligible(q *classQueue, now time.Time) {
	if len(q.ready) == 0 && q.dispatched == 0 && !q.eligible && !q.pausedUntil.After(now) {
		delete(job.queues, q.class)
	}
	if len(q.ready) == 0 || q.eligible || q.dispatched >= q.maxChunks || q.pausedUntil.After(now) {
		return
	}
	asked := q.unanswered
	if q.class == chunks.ClassTail {
		asked -= q.budgetWait.Rows // its other routes have their own budgets
	}
	if q.dispatched > 0 && asked >= windowsInFlight*job.scheduler.budgets.window(q.class) {
		return // more would only wait at the prober
	}
	q.eligible = true
	job.eligible = append(job.eligible, q)
}
