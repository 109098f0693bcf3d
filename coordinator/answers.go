package coordinator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// A finished job has an answers file: a rows log with each row once, in row order, in an object that never changes. The
// job's record has its length, row count and last checksum, so that another, a partial or an older file is detected.

// The kinds of the objects of a finished job.
const (
	kindAnswers = "answers"
	kindResult  = "result"
)

// answersFile is an open file of a job's answers.
type answersFile interface {
	io.ReaderAt
	io.Closer
}

// openAnswers opens the answers of a job: the answers file of a finished job, else its log. It returns nil if the job has
// no answers yet.
func (c *Coordinator) openAnswers(j *store.Job) (answersFile, error) {
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

// readAnswers calls visit with each whole group of a job's answers and returns where they end. If the answers of a finished
// job differ from its record, the error is errDamaged.
func readAnswers(j *store.Job, f answersFile, visit func(*jobfiles.Group) error) (end jobfiles.LogEnd, err error) {
	if f == nil {
		return end, nil
	}
	rows := int64(0)
	end, err = jobfiles.ReadRows(f, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if err := checkRecord(j, row, rec); err != nil {
				return err
			}
			rows++
		}
		return visit(g)
	})
	if a := j.Answers; err == nil && a != nil && (end.Damaged > 0 || end.At != a.Bytes || end.Sum != a.Sum || rows != a.Rows) {
		err = fmt.Errorf("the answers file %s is not as it was written: %w", a.Name, errDamaged)
	}
	return end, err
}

// answeredRows reads which rows of a job are answered, and counts them by reason.
func (c *Coordinator) answeredRows(j *store.Job) (answered jobfiles.RowSet, t answerCounts, err error) {
	answered = jobfiles.NewRowSet(j.Rows)
	f, err := c.openAnswers(j)
	if err != nil || f == nil {
		return answered, t, err
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final && answered.Add(row) {
				t[rec.Reason()]++
			}
		}
		return nil
	})
	return answered, t, errors.Join(err, f.Close())
}

// answersWriter writes the answers file of a job. The caller ends it with finish or Abort.
type answersWriter struct {
	jobfiles.Pending
	rows  *jobfiles.RowsWriter
	file  store.AnswersFile
	names nameReader
}

// createAnswers begins an answers file for a job whose answers are in from.
func (c *Coordinator) createAnswers(job string, from answersFile) (*answersWriter, error) {
	p, err := c.objects.Create(job, kindAnswers)
	if err != nil {
		return nil, err
	}
	return &answersWriter{Pending: p, rows: jobfiles.NewRowsWriter(p), file: store.AnswersFile{Name: p.Name()}, names: nameReader{f: from}}, nil
}

// add adds an answer; its names are numbers of the whole source file.
func (w *answersWriter) add(row uint32, rec *jobfiles.Record) (err error) {
	var names [4]string
	for i, ref := range rec.Refs() {
		if names[i], err = w.names.readName(ref); err != nil {
			return err
		}
	}
	w.file.Rows++
	return w.rows.AddRecord(row, rec, names)
}

// finish makes the file durable. The caller must name it in the job's record.
func (w *answersWriter) finish() error {
	end, err := w.rows.Finish()
	if err != nil {
		return err
	}
	w.file.Bytes, w.file.Sum = end.At, end.Sum
	return w.Commit()
}
