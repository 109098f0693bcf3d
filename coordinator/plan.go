package coordinator

import (
	"context"
	"errors"
	"fmt"

	"probity/coordinator/jobfiles"
	"probity/coordinator/plan"
	"probity/internal/pipeline"
	"probity/store"
)

// Plan computes the least time for the rest of a job that is ready, queued, running or paused; in other states it
// returns ErrState. It reads the list again and looks up its domains. One plan is made at a time.
func (c *Coordinator) Plan(ctx context.Context, id string, o plan.Options) (p plan.JobPlan, err error) {
	if err := pipeline.Acquire(ctx, c.planSlots); err != nil {
		return p, err
	}
	defer func() { <-c.planSlots }()
	j, err := plannable(c.Job(id))
	if err != nil {
		return p, err
	}
	if p, err = c.planJob(ctx, j, o); err != nil {
		if _, moved := plannable(c.Job(id)); moved != nil {
			err = moved // the job has finished, and its files may be gone
		}
	}
	return p, err
}

// planJob makes a plan from the job's files.
func (c *Coordinator) planJob(ctx context.Context, j *store.Job, o plan.Options) (p plan.JobPlan, err error) {
	u, err := c.files.OpenUpload(j)
	if err != nil {
		return p, err
	}
	var answered jobfiles.RowSet
	c.mu.Lock()
	if r := c.runners[j.ID]; r != nil && r.running != nil {
		answered = r.running.progress.Answered
	}
	c.mu.Unlock()
	if answered == nil {
		answered, _, err = c.files.AnsweredRows(j)
	}
	if err == nil {
		p, err = c.planner.Plan(ctx, j, u, answered, o)
	}
	return p, errors.Join(err, u.Close())
}

// plannable returns a job that may have unanswered rows, or ErrState.
func plannable(j *store.Job, err error) (*store.Job, error) {
	if err != nil {
		return nil, err
	}
	switch j.State {
	case store.JobReady, store.JobQueued, store.JobRunning, store.JobPaused:
		return j, nil
	}
	return nil, fmt.Errorf("%w: it is %s", ErrState, j.State)
}
