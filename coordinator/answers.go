package coordinator

import (
	"errors"
	"fmt"
	"io/fs"

	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/store"
)

// A finished job has an answers file: a rows log with each row once, in row order, in an object that never changes. The
// job's record has its length, row count and last checksum, so that another, a partial or an older file is detected.

// The kinds of the objects of a finished job.
const (
	kindAnswers = "answers"
	kindResult  = "result"
)

// openAnswers opens the answers of a job: the answers file of a finished job, else its log. It returns nil if the job has
// no answers yet.
func (c *Coordinator) openAnswers(j *store.Job) (results.AnswersFile, error) {
	if j.Answers != nil {
		f, err := c.objects.Open(j.ID, j.Answers.Name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the answers file %s is missing: %w", j.Answers.Name, errDamaged)
		}
		return f, err
	}
	if err := c.migrateLog(c.dir(j.ID)); err != nil {
		return nil, err
	}
	f, err := c.cfg.FS.Open(c.cfg.FS.PathJoin(c.dir(j.ID), fileRows))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// answeredRows reads which rows of a job are answered, and counts them by reason.
func (c *Coordinator) answeredRows(j *store.Job) (answered jobfiles.RowSet, t answerCounts, err error) {
	answered = jobfiles.NewRowSet(j.Rows)
	f, err := c.openAnswers(j)
	if err != nil || f == nil {
		return answered, t, err
	}
	_, err = results.ReadAnswers(j, f, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final && answered.Add(row) {
				t[rec.Reason()]++
			}
		}
		return nil
	})
	return answered, t, errors.Join(err, f.Close())
}

// createAnswers begins an answers file for a job.
func (c *Coordinator) createAnswers(job string) (*results.AnswersWriter, error) {
	p, err := c.objects.Create(job, kindAnswers)
	if err != nil {
		return nil, err
	}
	return results.NewAnswersWriter(p), nil
}
