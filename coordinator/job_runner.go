package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/internal/pipeline"
	"probity/store"
)

// jobRunner takes one job through its states. The store has the state; wake signals that it may have changed.
type jobRunner struct {
	c              *Coordinator
	id             string
	wake           chan struct{}
	running        *runningJob  // guarded by Coordinator.mu; set while the job is worked on
	lastCounts     answerCounts // guarded by Coordinator.mu; answers when it was last worked on
	lastDuplicates int64        // guarded by Coordinator.mu; finished duplicates at that time

	recounted bool // the answers in the log were counted
	durable   durableProgress
	failures  stepFailures
}

const maxPaused = 7 * 24 * time.Hour // then a paused job is cancelled

// newJobRunner registers the runner of a job; nil if it has one already. c.mu is held.
func (c *Coordinator) newJobRunner(id string) *jobRunner {
	if c.runners[id] != nil {
		return nil
	}
	r := &jobRunner{c: c, id: id, wake: make(chan struct{}, 1)}
	c.runners[id] = r
	return r
}

func (c *Coordinator) removeRunner(r *jobRunner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runners, r.id)
}

func (r *jobRunner) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run runs the job's steps until it is finished or ctx ends. An error means that the state store failed, which stops the
// coordinator. Any other failure concerns only this job.
func (r *jobRunner) run(ctx context.Context) error {
	for ctx.Err() == nil {
		done, err := r.runStep(ctx)
		switch {
		case done || ctx.Err() != nil:
			return nil
		case err == nil:
			r.clearFailures()
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
		j, err = r.c.reconcileFiles(j)
	}
	if err == nil {
		err = r.countLogged(j)
	}
	if err != nil {
		return false, err
	}
	return false, pipeline.Contain(func() error { return r.step(ctx, j) })
}

// step does the work of the job's state until that changes.
func (r *jobRunner) step(ctx context.Context, j *store.Job) error {
	switch j.State {
	case store.JobQueued, store.JobRunning:
		return r.work(ctx, j)
	case store.JobPaused:
		return r.waitPaused(ctx, j)
	case store.JobCancelling, store.JobFinalizing:
		return r.c.finalize(ctx, j)
	}
	return fmt.Errorf("unknown state %q", j.State)
}

// waitPaused waits while the job is paused.
func (r *jobRunner) waitPaused(ctx context.Context, j *store.Job) error {
	t := time.NewTimer(time.Until(r.c.clockTrust.notBefore(j.PausedAt.Add(maxPaused))))
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
}

// work runs the job until all rows are answered, its time is over, or its state changes.
func (r *jobRunner) work(ctx context.Context, j *store.Job) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		r.stopOnNotify(ctx, stop)
	}()
	defer func() { stop(); <-watchDone }()
	if err := acquire(ctx, r.c.runningSlots); err != nil {
		return nil
	}
	defer func() { <-r.c.runningSlots }()
	j, err := r.c.updateJob(j.ID, func(j *store.Job) error {
		if j.State != store.JobQueued && j.State != store.JobRunning {
			return errStateChanged
		}
		if j.StartedAt.IsZero() {
			j.StartedAt = time.Now().UTC()
		}
		j.State, j.Error = store.JobRunning, ""
		j.Term++
		return nil
	})
	if errors.Is(err, errStateChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.runJob(ctx, j)
}

// errStateChanged abandons a change of a job that is not in the expected state any more.
var errStateChanged = errors.New("the job has moved on")

// stopOnNotify stops the work when the runner is notified.
func (r *jobRunner) stopOnNotify(ctx context.Context, stop func()) {
	select {
	case <-r.wake:
		stop()
	case <-ctx.Done():
	}
}

func (r *jobRunner) runJob(ctx context.Context, j *store.Job) error {
	deadline := r.c.deadline(j)
	ctx, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	job := r.c.newRunningJob(ctx, j)
	err := job.open()
	if err == nil {
		job.progress.restart(time.Now())
		r.setRunning(job)
		err = job.work()
		r.clearRunning(job.doneDuplicates(time.Now(), 0))
	}
	if closing := job.close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	select {
	case <-job.finished:
	default:
		if time.Now().Before(deadline) {
			return nil
		}
	}
	_, err = r.c.updateJob(j.ID, func(j *store.Job) error {
		if j.State != store.JobRunning {
			return errStateChanged
		}
		j.State = store.JobFinalizing
		setFinishedNow(j)
		return nil
	})
	if errors.Is(err, errStateChanged) {
		return nil
	}
	return err
}

func (r *jobRunner) setRunning(job *runningJob) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.running, r.failures.problem = job, ""
}

// clearRunning ends the work and keeps the counts that the job shows afterwards.
func (r *jobRunner) clearRunning(duplicates int64) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.lastCounts, r.lastDuplicates = r.running.progress.answerCounts(), duplicates
	if r.running.log.Wrote() {
		r.durable.rows = max(r.durable.rows, r.lastCounts.answered())
	}
	r.running = nil
}

func (c *Coordinator) runningJobOf(id string) *runningJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.running
	}
	return nil
}
