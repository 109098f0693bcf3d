package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"probity/coordinator/jobfiles"
	"probity/coordinator/resultfile"
	"probity/store"
)

// Errors of requests about jobs.
var (
	ErrState    = resultfile.ErrState    // the job's state does not allow it
	ErrNotReady = resultfile.ErrNotReady // the job is not finished, and Filter.Partial is not set
	ErrExpired  = resultfile.ErrExpired  // the results were deleted
	ErrDamaged  = jobfiles.ErrDamaged    // files of the job are damaged: no results are returned
)

// Job returns the job with an id, or store.ErrNotFound.
func (c *Coordinator) Job(id string) (*store.Job, error) { return c.cfg.Store.Job(id) }

// Jobs returns at most limit jobs of an account, newest first; see store.JobsOf.
func (c *Coordinator) Jobs(account string, state store.JobState, limit int,
	cursor string) ([]*store.Job, string, error) {
	return c.cfg.Store.JobsOf(account, state, limit, cursor)
}

// Start starts a job in state ready, in one commit with the parts. A job that was just started is no error.
func (c *Coordinator) Start(id string, parts ...store.Part) (*store.Job, error) {
	j, err := c.updateJob(id, func(j *store.Job) error {
		if j.State != store.JobReady {
			return fmt.Errorf("%w: it is %s", ErrState, j.State)
		}
		j.State, j.Unstarted = store.JobQueued, false
		return nil
	}, parts...)
	if errors.Is(err, ErrState) {
		if j, err := c.Job(id); err == nil && (j.State == store.JobQueued || j.State == store.JobRunning) {
			return j, nil
		}
	}
	return j, err
}

// Pause stops sending rows of a job; rows in flight are returned first.
func (c *Coordinator) Pause(id string) (*store.Job, error) {
	return c.transition(id, store.JobPaused, func(j *store.Job) { j.PausedAt = time.Now().UTC() }, store.JobQueued,
		store.JobRunning)
}

// Resume continues a paused job.
func (c *Coordinator) Resume(id string) (*store.Job, error) {
	return c.transition(id, store.JobQueued, func(j *store.Job) { j.PausedAt, j.Error = time.Time{}, "" },
		store.JobPaused)
}

// Cancel ends a job: finished rows keep their verdicts, the others get UNKNOWN/cancelled, and the result file is made.
func (c *Coordinator) Cancel(id string) (*store.Job, error) {
	return c.transition(id, store.JobCancelling, func(j *store.Job) { j.Cancelled = true; setFinishedNow(j) },
		store.JobReady, store.JobQueued, store.JobRunning, store.JobPaused)
}

// transition changes the state of a job from one of some others. A job that is in the state already is no error.
func (c *Coordinator) transition(id string, to store.JobState, also func(*store.Job),
	from ...store.JobState) (*store.Job, error) {
	j, err := c.updateJob(id, func(j *store.Job) error {
		if !slices.Contains(from, j.State) {
			return fmt.Errorf("%w: it is %s", ErrState, j.State)
		}
		j.State = to
		also(j)
		return nil
	})
	if errors.Is(err, ErrState) {
		if j, err := c.Job(id); err == nil && (j.State == to || to == store.JobQueued && j.State == store.JobRunning) {
			return j, nil
		}
	}
	return j, err
}

// updateJob commits a change of a job. If its state changes, waiters and the job's runner are notified.
func (c *Coordinator) updateJob(id string, how func(*store.Job) error, parts ...store.Part) (*store.Job, error) {
	var was store.JobState
	j, err := c.cfg.Store.UpdateJob(id, func(j *store.Job) error {
		was = j.State
		return how(j)
	}, parts...)
	if err != nil || j.State == was {
		return j, err
	}
	if i := slices.Index(endedStates[:], j.State); i >= 0 {
		c.metrics.ended[i].Add(1)
	}
	if j.State.Finished() { // also before it is deleted
		c.renderer.DropLive(id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.stateWatchers[id]; ch != nil {
		close(ch)
		delete(c.stateWatchers, id)
	}
	if was == store.JobReady && !j.State.Finished() && c.startJob != nil {
		c.startJob(id)
	}
	if r := c.runners[id]; r != nil && j.State != store.JobRunning && j.State != store.JobFinalizing {
		r.wake.Notify()
	}
	return j, nil
}

// WaitChange returns the job once its state differs from from, or as it is when ctx ends.
func (c *Coordinator) WaitChange(ctx context.Context, id string, from store.JobState) (*store.Job, error) {
	for {
		c.mu.Lock()
		ch := c.stateWatchers[id]
		if ch == nil {
			ch = make(chan struct{})
			c.stateWatchers[id] = ch
		}
		c.mu.Unlock()
		j, err := c.Job(id)
		if err != nil || j.State != from {
			return j, err
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return j, nil
		}
	}
}

// Wait returns the job once it is finished, or ctx's error.
func (c *Coordinator) Wait(ctx context.Context, id string) (*store.Job, error) {
	j, err := c.Job(id)
	for err == nil && !j.State.Finished() {
		if err := ctx.Err(); err != nil {
			return j, err
		}
		j, err = c.WaitChange(ctx, id, j.State)
	}
	return j, err
}
