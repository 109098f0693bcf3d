package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/pipeline"
	"probity/store"
)

// finalize makes the files of a finished job and ends it in one commit with its settlement. A job whose log lost answers
// continues if it has time left.
func (c *Coordinator) finalize(ctx context.Context, j *store.Job) error {
	if err := pipeline.Acquire(ctx, c.assemblySlots); err != nil {
		return nil
	}
	defer func() { <-c.assemblySlots }()
	made, err := c.makeResults(ctx, j)
	if errors.Is(err, errUnanswered) { // it goes on with the rows whose answers were lost
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
	if made.damaged > 0 {
		done.Damage = msgAnswersLost
	}
	made.setOn(&done)
	done.Counts, done.Reasons, done.Error = made.Counts(), made.Reasons(), ""
	done.Charged = made.Charged
	return c.commitFinished(j, &done)
}

// errUnanswered means that a job which should be complete lacks answers.
var errUnanswered = errors.New("rows lack an answer")

// resultFiles is the new files of a finished job and the totals of its rows.
type resultFiles struct {
	answers *store.AnswersFile // nil: it existed before
	result  string             // name of the file
	sha     string
	bytes   int64
	damaged int // damaged groups of the log
	results.Totals
}

func (rf *resultFiles) setOn(j *store.Job) {
	if rf.answers != nil {
		j.Answers = rf.answers
	}
	j.Result, j.ResultSHA, j.ResultBytes = rf.result, rf.sha, rf.bytes
}

// makeResults makes the result file of a job, and its answers file if there is none, and counts their rows. No record refers to
// them yet.
func (c *Coordinator) makeResults(ctx context.Context, j *store.Job) (rf resultFiles, err error) {
	a, err := c.openAssembly(j, results.Filter{Form: c.cfg.Stored})
	if err != nil {
		return rf, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.Unanswered > 0 && j.State == store.JobFinalizing && !j.Cancelled && time.Now().Before(c.clockTrust.deadline(j)) {
		return rf, errUnanswered
	}
	var answers *results.AnswersWriter
	if j.Answers == nil {
		if answers, err = c.files.CreateAnswers(j.ID); err != nil {
			return rf, err
		}
		defer func() { err = errors.Join(err, answers.Abort()) }()
		a.WriteAnswers(answers)
	}
	result, err := c.files.Create(j.ID, jobdir.KindResult)
	if err != nil {
		return rf, err
	}
	defer func() { err = errors.Join(err, result.Abort()) }()
	sum, size := sha256.New(), byteCount(0)
	if err := a.Write(ctx, io.MultiWriter(sum, &size, result)); err != nil { // the file last: it may change the bytes
		return rf, err
	}
	if answers != nil {
		if err := answers.Finish(); err != nil {
			return rf, err
		}
		rf.answers = &answers.File
	}
	rf.result, rf.sha, rf.bytes = result.Name(), hex.EncodeToString(sum.Sum(nil)), int64(size)
	rf.Totals, rf.damaged = a.Totals, a.Damaged
	return rf, result.Commit()
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
	return c.files.RemoveOrphans(done.ID)
}

type byteCount int64

func (n *byteCount) Write(b []byte) (int, error) {
	*n += byteCount(len(b))
	return len(b), nil
}

// setFinishedNow sets when probing ended: rows without an answer get that time.
func setFinishedNow(j *store.Job) { j.FinishedAt = time.Now().UTC() }
