package coordinator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// A finished job has an answers file: a rows log in the order of the rows, each once, in an object that never changes. Its length, its
// rows and its last checksum are in the job's record, so that no other file, no part of it and no older one can pass for it.

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

// openAnswers opens the answers of a job: its answers file once it is finished, its log before. It gives nil where nothing was ever asked.
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

// readAnswers calls visit with each whole group of a job's answers, and tells where they end. Those of a finished job are as its record
// says, or damaged.
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

// answeredRows reads which rows of a job are answered, and how many of each reason.
func (c *Coordinator) answeredRows(j *store.Job) (answered bitset, t answerCounts, err error) {
	answered = newBitset(j.Rows)
	f, err := c.openAnswers(j)
	if err != nil || f == nil {
		return answered, t, err
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final && answered.add(row) {
				t[rec.Reason()]++
			}
		}
		return nil
	})
	return answered, t, errors.Join(err, f.Close())
}

// answersWriter writes the answers file of a job. Abort ends it at the latest.
type answersWriter struct {
	jobfiles.Pending
	rows  *jobfiles.RowsWriter
	file  store.AnswersFile
	names nameReader
}

// createAnswers begins the answers file of a job whose answers are in from.
func (c *Coordinator) createAnswers(job string, from answersFile) (*answersWriter, error) {
	p, err := c.objects.Create(job, kindAnswers)
	if err != nil {
		return nil, err
	}
	return &answersWriter{Pending: p, rows: jobfiles.NewRowsWriter(p), file: store.AnswersFile{Name: p.Name()}, names: nameReader{f: from}}, nil
}

// add adds an answer whose names are those of all of from.
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

// finish makes the file durable; the job's record is to name it.
func (w *answersWriter) finish() error {
	end, err := w.rows.Finish()
	if err != nil {
		return err
	}
	w.file.Bytes, w.file.Sum = end.At, end.Sum
	return w.Commit()
}
