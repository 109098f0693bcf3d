package coordinator

import (
	"context"
	"errors"
	"time"

	"probity/coordinator/jobfiles"
	"probity/coordinator/resultfile"
	"probity/internal/spans"
	"probity/store"
)

// finalize makes the files of a finished job and ends it in one commit with its settlement. A job whose log lost
// answers continues if it has time left.
func (c *Coordinator) finalize(ctx context.Context, j *store.Job) error {
	made, err := c.resultFiles.Make(ctx, j)
	if errors.Is(err, resultfile.ErrUnanswered) { // it goes on with the rows whose answers were lost
		_, err := c.transition(j.ID, store.JobRunning, func(j *store.Job) { j.FinishedAt = time.Time{} }, j.State)
		return jobfiles.Ignore(err, ErrState)
	}
	if err != nil {
		return err
	}
	done := *j
	done.State = store.JobCompleted
	if j.Cancelled {
		done.State = store.JobCancelled
	}
	if made.Damaged > 0 {
		done.Damage = msgAnswersLost
	}
	made.SetOn(&done)
	done.Counts, done.Reasons, done.Error = made.Counts(), made.Reasons(), ""
	done.Charged = made.Charged
	return c.commitFinished(j, &done)
}

// commitFinished commits that a job is finished, unless its state was changed meanwhile.
func (c *Coordinator) commitFinished(was, done *store.Job) error {
	var parts []store.Part
	if c.cfg.OnFinish != nil {
		parts = c.cfg.OnFinish(done)
	}
	_, err := c.updateJob(done.ID, func(j *store.Job) error {
		if j.State != was.State {
			return ErrState
		}
		*j = *done
		return nil
	}, parts...)
	if err != nil {
		return jobfiles.Ignore(err, ErrState)
	}
	traceJob(c.cfg.Tracer, done)
	return c.files.RemoveOrphans(done.ID)
}

// traceJob records a job that has ended. Its rows have no spans.
func traceJob(t *spans.Tracer, j *store.Job) {
	s := t.Start(spans.ParsePlace(j.Traceparent), "job", spans.Internal, j.CreatedAt)
	if s == nil {
		return
	}
	s.Event("started", j.StartedAt)
	s.Event("paused", j.PausedAt)
	s.Event("probed", j.FinishedAt)
	s.Text("user.id", j.Account)
	s.Text("probity.job", j.ID)
	s.Text("probity.state", string(j.State))
	s.Number("probity.rows", int(j.Rows))
	if j.State == store.JobFailed {
		s.Fail()
	}
	s.End(time.Now())
}

// setFinishedNow sets when probing ended: rows without an answer get that time.
func setFinishedNow(j *store.Job) { j.FinishedAt = time.Now().UTC() }
