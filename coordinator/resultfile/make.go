package resultfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"probity/coordinator/jobdir"
	"probity/coordinator/results"
	"probity/internal/pipeline"
	"probity/store"
)

// ErrUnanswered means that a job which should be complete lacks answers.
var ErrUnanswered = errors.New("rows lack an answer")

// Made is the new files of a finished job and the totals of its rows.
type Made struct {
	answers *store.AnswersFile // nil: it existed before
	result  string             // name of the file
	sha     string
	bytes   int64
	Damaged int // damaged groups of the log
	tally   *store.Tally
	results.Totals
}

// SetOn sets the files in the record of their job.
func (m *Made) SetOn(j *store.Job) {
	if m.answers != nil {
		j.Answers = m.answers
	}
	j.Tally = m.tally
	j.Result, j.ResultSHA, j.ResultBytes = m.result, m.sha, m.bytes
}

// Make makes the result file of a job, and its answers file if there is none, and counts their rows. No record refers
// to them yet.
func (f *Files) Make(ctx context.Context, j *store.Job) (rf Made, err error) {
	if err := pipeline.Acquire(ctx, f.assemblySlots); err != nil {
		return rf, err
	}
	defer func() { <-f.assemblySlots }()
	a, err := f.openAssembly(j, results.Filter{Form: f.cfg.Stored})
	if err != nil {
		return rf, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.Unanswered > 0 && j.State == store.JobFinalizing && !j.Cancelled && time.Now().Before(f.cfg.Deadline(j)) {
		return rf, ErrUnanswered
	}
	var answers *results.AnswersWriter
	if j.Answers == nil {
		if answers, err = f.cfg.Files.CreateAnswers(j.ID); err != nil {
			return rf, err
		}
		defer func() { err = errors.Join(err, answers.Abort()) }()
		a.WriteAnswers(answers)
	}
	result, err := f.cfg.Files.Create(j.ID, jobdir.KindResult)
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
	rf.Totals, rf.Damaged, rf.tally = a.Totals, a.Damaged, a.Tally()
	return rf, result.Commit()
}

type byteCount int64

func (b *byteCount) Write(p []byte) (int, error) {
	*b += byteCount(len(p))
	return len(p), nil
}
