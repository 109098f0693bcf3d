package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"probity/coordinator/jobfiles"
	"probity/coordinator/progress"
	"probity/coordinator/split"
	"probity/internal/pipeline"
	"probity/store"
)

// jobRunner takes one job through its states. The store has the state; wake signals that it may have changed.
type jobRunner struct {
	c              *Coordinator
	id             string
	wake           pipeline.Wake
	running        *runningJob     // guarded by Coordinator.mu; set while the job is worked on
	lastCounts     progress.Counts // guarded by Coordinator.mu; answers when it was last worked on
	lastDuplicates int64           // guarded by Coordinator.mu; finished duplicates at that time

	recounted bool // the answers in the log were counted
	durable   durableProgress
	failures  stepFailures
}

const maxPaused = 7 * 24 * time.Hour // then a paused job is cancelled

// run runs the job's steps until it is finished or ctx ends. An error means that the state store failed, which stops
// the coordinator. Any other failure concerns only this job.
func (r *jobRunner) run(ctx context.Context) error {
	for ctx.Err() == nil {
		done, err := r.runStep(ctx)
		switch {
		case done || ctx.Err() != nil:
			return nil
		case err == nil:
			r.failures.count = 0
			r.setProblem("")
			continue
		}
		if err := r.handleFailure(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// runStep runs one step with the job locked; done means that there is no further one.
func (r *jobRunner) runStep(ctx context.Context) (done bool, err error) {
	unlock, err := r.c.files.Lock(ctx, r.id)
	if err != nil {
		return true, nil
	}
	defer unlock()
	j, err := r.c.cfg.Store.Job(r.id)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.State.Finished() {
		return true, nil
	}
	if err == nil {
		r.durable.state = j.State
		err = r.c.removeOrphans(r.id)
	}
	if err != nil {
		return false, err
	}
	// After a start of the process the log is all that is known of a job that is paused or waits for its turn.
	if !r.recounted {
		r.recounted = true
		answered, t, err := r.c.files.AnsweredRows(j)
		if err != nil {
			return false, err
		}
		duplicates, err := r.c.files.CountDuplicates(j, answered)
		if err != nil {
			r.c.log.Error(msgUncounted, "job", r.id, "error", err)
		}
		r.c.mu.Lock()
		r.lastCounts, r.lastDuplicates = t, duplicates
		r.durable.rows = r.lastCounts.Answered()
		r.c.mu.Unlock()
	}
	return false, pipeline.Contain(func() error {
		switch j.State {
		case store.JobQueued, store.JobRunning:
			return r.work(ctx)
		case store.JobPaused:
			t := time.NewTimer(time.Until(r.c.clock.NotBefore(j.PausedAt.Add(maxPaused))))
			defer t.Stop()
			select {
			case <-r.wake:
				return nil
			case <-ctx.Done():
				return nil
			case <-t.C:
				_, err := r.c.Cancel(r.id)
				return err
			}
		case store.JobCancelling, store.JobFinalizing:
			return r.c.finalize(ctx, j)
		}
		return fmt.Errorf("unknown state %q", j.State)
	})
}

// work runs the job until all rows are answered, its time is over, or its state changes.
func (r *jobRunner) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { // a notification stops the work
		select {
		case <-r.wake:
			stop()
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer stop()
	if err := pipeline.Acquire(ctx, r.c.runningSlots); err != nil {
		return nil
	}
	defer func() { <-r.c.runningSlots }()
	j, err := r.c.transition(r.id, store.JobRunning, func(j *store.Job) {
		if j.StartedAt.IsZero() {
			j.StartedAt = time.Now().UTC()
		}
		j.Error = ""
		j.Term++
	}, store.JobQueued, store.JobRunning)
	if err != nil {
		return jobfiles.Ignore(err, ErrState)
	}
	deadline := r.c.clock.Deadline(j)
	timed, stopTimed := context.WithDeadline(ctx, deadline)
	defer stopTimed()
	job := &runningJob{
		c: r.c, record: j, ctx: timed, failed: make(chan error, 1), deferred: split.NewDeferred(),
		progress: progress.New(j.Rows, &r.c.metrics.rows),
	}
	if err = job.open(); err == nil {
		r.c.mu.Lock()
		r.running, r.failures.problem = job, ""
		r.c.mu.Unlock()
		err = job.work()
		duplicates := job.doneDuplicates(time.Now(), 0)
		r.c.mu.Lock()
		// what the job shows afterwards
		r.running, r.lastCounts, r.lastDuplicates = nil, job.progress.Counts(), duplicates
		if job.log.Wrote() {
			r.durable.rows = max(r.durable.rows, r.lastCounts.Answered())
		}
		r.c.mu.Unlock()
	}
	var closed error
	if job.log != nil && !job.logStarted {
		closed = job.log.Close()
	}
	if job.upload != nil {
		closed = errors.Join(closed, job.upload.Close())
	}
	if job.file != nil {
		closed = errors.Join(closed, job.file.Close())
	}
	if err = cmp.Or(err, closed); err != nil {
		return err
	}
	select {
	case <-job.chunks.Finished():
	default:
		if time.Now().Before(deadline) {
			return nil
		}
	}
	_, err = r.c.transition(r.id, store.JobFinalizing, setFinishedNow, store.JobRunning)
	return jobfiles.Ignore(err, ErrState)
}
