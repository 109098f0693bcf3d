package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store"
)

// runner takes one job through its states. The state in the store is the truth; bell says that it may have changed.
type runner struct {
	c    *Coordinator
	id   string
	bell chan struct{}
	live *live    // guarded by Coordinator.mu; set while the job is worked on
	seen standing // guarded by Coordinator.mu; what was answered when it was worked on last

	recalled bool // what the log says was counted
}

const maxPaused = 7 * 24 * time.Hour // then a paused job is cancelled

// newRunner registers the runner of a job, nil when it has one. c.mu is held.
func (c *Coordinator) newRunner(id string) *runner {
	if c.runners[id] != nil {
		return nil
	}
	r := &runner{c: c, id: id, bell: make(chan struct{}, 1)}
	c.runners[id] = r
	return r
}

func (c *Coordinator) endRunner(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runners, r.id)
}

func (r *runner) ring() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

// drive takes the job on until it is finished or ctx ends. An error means that the coordinator cannot go on.
func (r *runner) drive(ctx context.Context) error {
	for ctx.Err() == nil {
		done, err := r.takeStep(ctx)
		if err != nil && ctx.Err() == nil {
			err = r.setback(err)
		}
		if done || err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// takeStep takes one step in the runner's turn; done tells that there is no further one.
func (r *runner) takeStep(ctx context.Context) (done bool, err error) {
	give, err := r.c.takeTurn(ctx, r.id)
	if err != nil {
		return true, nil
	}
	defer give()
	j, err := r.c.cfg.Store.Job(r.id)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.State.Finished() {
		return true, nil
	}
	if err == nil {
		err = r.recall(j)
	}
	if err != nil {
		return false, err
	}
	return false, r.step(ctx, j)
}

// step does what the job's state asks for, until that changes.
func (r *runner) step(ctx context.Context, j *store.Job) error {
	switch j.State {
	case store.JobQueued, store.JobRunning:
		return r.work(ctx, j)
	case store.JobPaused:
		return r.sitOut(ctx, j)
	case store.JobCancelling, store.JobFinalizing:
		return r.c.finalize(ctx, j)
	}
	return fmt.Errorf("unknown state %q", j.State)
}

// setback pauses a job whose disk is full, and ends one whose files are damaged; any other failure is returned.
func (r *runner) setback(cause error) error {
	switch {
	case vfs.IsNoSpaceError(cause):
		r.c.log.Error("disk full: job paused", "job", r.id, "error", cause)
		_, err := r.c.change(r.id, func(j *store.Job) error {
			j.State, j.PausedAt = store.JobPaused, time.Now().UTC()
			j.Error = "the disk is full; make room and resume the job"
			return nil
		})
		return err
	case errors.Is(cause, errDamaged), errors.Is(cause, fs.ErrNotExist):
		r.c.log.Error("job failed", "job", r.id, "error", cause)
		return r.c.failJob(r.id)
	}
	return cause
}

// tellRunning tells of the number of this moment, whoever changed it: what is told last is true.
func (c *Coordinator) tellRunning() {
	if c.cfg.OnRunning == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.cfg.OnRunning(len(c.running))
}

// sitOut waits while the job is paused.
func (r *runner) sitOut(ctx context.Context, j *store.Job) error {
	t := time.NewTimer(time.Until(j.PausedAt.Add(maxPaused)))
	defer t.Stop()
	select {
	case <-r.bell:
		return nil
	case <-ctx.Done():
		return nil
	case <-t.C:
		_, err := r.c.Cancel(r.id)
		return err
	}
}

// work runs the job until nothing is left to ask, its time is over, or its state changes.
func (r *runner) work(ctx context.Context, j *store.Job) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, stop)
	}()
	defer func() { stop(); <-watched }()
	if err := acquire(ctx, r.c.running); err != nil {
		return nil
	}
	defer r.c.tellRunning() // after the next
	defer func() { <-r.c.running }()
	r.c.tellRunning()
	j, err := r.c.change(j.ID, func(j *store.Job) error {
		if j.State != store.JobQueued && j.State != store.JobRunning {
			return errMoved
		}
		if j.StartedAt.IsZero() {
			j.StartedAt = time.Now().UTC()
		}
		j.State, j.Error = store.JobRunning, ""
		j.Term++
		return nil
	})
	if errors.Is(err, errMoved) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.workLive(ctx, j)
}

// errMoved abandons a change of a job that is not in the expected state any more.
var errMoved = errors.New("the job has moved on")

// watch ends the work when the job is rung for.
func (r *runner) watch(ctx context.Context, stop func()) {
	select {
	case <-r.bell:
		stop()
	case <-ctx.Done():
	}
}

func (r *runner) workLive(ctx context.Context, j *store.Job) error {
	deadline := j.StartedAt.Add(time.Duration(j.MaxHours) * time.Hour)
	ctx, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	l := r.c.newLive(ctx, j)
	err := l.open()
	if err == nil {
		l.progress.restart(time.Now())
		r.setLive(l)
		err = l.work()
		r.setLive(nil)
	}
	if closing := l.close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	select {
	case <-l.finished:
	default:
		if time.Now().Before(deadline) {
			return nil
		}
	}
	_, err = r.c.change(j.ID, func(j *store.Job) error {
		if j.State != store.JobRunning {
			return errMoved
		}
		j.State = store.JobFinalizing
		endedNow(j)
		return nil
	})
	if errors.Is(err, errMoved) {
		return nil
	}
	return err
}

func (r *runner) setLive(l *live) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if l == nil && r.live != nil {
		r.seen = r.live.progress.standing()
	}
	r.live = l
}

func (c *Coordinator) liveOf(id string) *live {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.live
	}
	return nil
}
