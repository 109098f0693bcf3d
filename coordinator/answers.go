package coordinator

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// A finished job has an answers file: a rows log in the order of the rows, each once, that never changes. Its length, its rows and its
// last checksum are in the job's record, so that no other file, no part of it and no older one can pass for it.

// answersPath is where the answers of a job are: in its answers file once it is finished, in its log before.
func (c *Coordinator) answersPath(j *store.Job) string {
	name := fileRows
	if j.Answers != nil {
		name = j.Answers.Name
	}
	return c.cfg.FS.PathJoin(c.dir(j.ID), name)
}

// openAnswers opens the answers of a job. It gives nil where nothing was ever asked.
func (c *Coordinator) openAnswers(j *store.Job) (vfs.File, error) {
	if err := c.takeOverLog(c.dir(j.ID)); err != nil {
		return nil, err
	}
	f, err := c.cfg.FS.Open(c.answersPath(j))
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return f, err
	case j.Answers != nil:
		return nil, fmt.Errorf("the answers file %s is missing: %w", j.Answers.Name, errDamaged)
	}
	return nil, nil
}

// readAnswers calls visit with each whole group of a job's answers, and tells where they end. Those of a finished job are as its record
// says, or damaged.
func readAnswers(j *store.Job, f vfs.File, visit func(*jobfiles.Group) error) (end jobfiles.LogEnd, err error) {
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
func (c *Coordinator) answeredRows(j *store.Job) (answered bitset, t standing, err error) {
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

// answersWriter writes the answers file of a job, window by window.
type answersWriter struct {
	*jobfiles.RowsWriter
	file  store.AnswersFile
	names nameReader
}

func (c *Coordinator) createAnswers(job string, log vfs.File) (*answersWriter, error) {
	name := newName(fileAnswers)
	rows, err := jobfiles.CreateRows(c.cfg.FS, c.cfg.FS.PathJoin(c.dir(job), name))
	if err != nil {
		return nil, err
	}
	return &answersWriter{RowsWriter: rows, file: store.AnswersFile{Name: name}, names: nameReader{f: log}}, nil
}

// add adds an answer whose names are those of the whole log.
func (w *answersWriter) add(row uint32, rec *jobfiles.Record) (err error) {
	var names [4]string
	for i, ref := range rec.Refs() {
		if names[i], err = w.names.at(ref); err != nil {
			return err
		}
	}
	w.file.Rows++
	return w.AddRecord(row, rec, names)
}

// finish makes the file durable. Its name becomes so with that of the result.
func (w *answersWriter) finish(failed error) error {
	err := w.Finish(failed)
	end := w.End()
	w.file.Bytes, w.file.Sum = end.At, end.Sum
	return err
}
