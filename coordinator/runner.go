package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/store"
)

// runner takes one job through its states. The state in the store is the truth; bell says that it may have changed.
type runner struct {
	c              *Coordinator
	id             string
	bell           chan struct{}
	live           *live    // guarded by Coordinator.mu; set while the job is worked on
	seen           standing // guarded by Coordinator.mu; what was answered when it was worked on last
	seenDuplicates int64    // guarded by Coordinator.mu; duplicates of these

	recalled bool // what the log says was counted
	reached  reached
	setbacks setbacks
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

// drive takes the job on until it is finished or ctx ends. An error means that the state store fails: without it nothing can go on.
// What else fails concerns this job alone.
func (r *runner) drive(ctx context.Context) error {
	for ctx.Err() == nil {
		done, err := r.takeStep(ctx)
		switch {
		case done || ctx.Err() != nil:
			return nil
		case err == nil:
			r.wellAgain()
			continue
		}
		if err := r.setback(ctx, err); err != nil {
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
		r.reached.state = j.State
		j, err = r.c.settle(j)
	}
	if err == nil {
		err = r.recall(j)
	}
	if err != nil {
		return false, err
	}
	return false, contained(func() error { return r.step(ctx, j) })
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

// sitOut waits while the job is paused.
func (r *runner) sitOut(ctx context.Context, j *store.Job) error {
	t := time.NewTimer(time.Until(r.c.trust.over(j.PausedAt.Add(maxPaused))))
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
	defer func() { <-r.c.running }()
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
	deadline := r.c.deadline(j)
	ctx, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	l := r.c.newLive(ctx, j)
	err := l.open()
	if err == nil {
		l.progress.restart(time.Now())
		r.beginLive(l)
		err = l.work()
		r.endLive(l.duplicatesDone(time.Now(), 0))
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

func (r *runner) beginLive(l *live) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.live, r.setbacks.trouble = l, ""
}

// endLive keeps what a job that is not worked on any more shows of itself.
func (r *runner) endLive(duplicates int64) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.seen, r.seenDuplicates = r.live.progress.standing(), duplicates
	if r.live.log.Wrote() {
		r.reached.rows = max(r.reached.rows, r.seen.answered())
	}
	r.live = nil
}

func (c *Coordinator) liveOf(id string) *live {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.live
	}
	return nil
}
