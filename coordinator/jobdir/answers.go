package jobdir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/addresses"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/store"
)

// OpenAnswers opens the answers of a job: the answers file of a finished job, else its log. It returns nil if the job
// has no answers yet.
func (d *Dirs) OpenAnswers(j *store.Job) (vfs.File, error) {
	if j.Answers != nil {
		f, err := d.Open(j.ID, j.Answers.Name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the answers file %s is missing: %w", j.Answers.Name, jobfiles.ErrDamaged)
		}
		return f, err
	}
	f, err := d.FS.Open(d.Path(j.ID, FileRows))
	if err != nil {
		return nil, jobfiles.Ignore(err, fs.ErrNotExist)
	}
	return f, nil
}

// AnswersMayContain reports whether a name in a job's answers may be an address in folded form. It reads the set of
// these names, which only the answers of a finished job have.
func (d *Dirs) AnswersMayContain(j *store.Job, folded string) (bool, error) {
	if j.Answers == nil {
		return true, nil
	}
	f, err := d.OpenAnswers(j)
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, errors.Join(err, f.Close())
	}
	return addresses.OpenSet(f, j.Answers.Bytes, info.Size()).MayContain(folded), f.Close()
}

// ReadAnswers calls visit with each whole group of a job's answers.
func (d *Dirs) ReadAnswers(j *store.Job, visit func(*jobfiles.Group) error) error {
	f, err := d.OpenAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = results.ReadAnswers(j, f, visit)
	return errors.Join(err, f.Close())
}

// AnsweredRows reads which rows of a job are answered, and counts them by reason.
func (d *Dirs) AnsweredRows(j *store.Job) (answered jobfiles.RowSet, reasons [engine.Reasons]int64, err error) {
	answered = jobfiles.NewRowSet(j.Rows)
	err = d.ReadAnswers(j, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final && answered.Add(row) {
				reasons[rec.Reason()]++
			}
		}
		return nil
	})
	return answered, reasons, err
}

// CreateAnswers begins an answers file for a job.
func (d *Dirs) CreateAnswers(job string) (*results.AnswersWriter, error) {
	p, err := d.Create(job, KindAnswers)
	if err != nil {
		return nil, err
	}
	return &results.AnswersWriter{Pending: p, Rows: jobfiles.NewRowsWriter(p), File: store.AnswersFile{Name: p.Name()}},
		nil
}

// ReplaceLog replaces a job's log of rows atomically and durably.
func (d *Dirs) ReplaceLog(job string, write func(*jobfiles.RowsWriter) error) error {
	path := d.Path(job, FileRows)
	f, err := d.FS.Create(path+wholefile.New, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := jobfiles.NewRowsWriter(f)
	err = write(w)
	if err == nil {
		_, err = w.Finish()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return errors.Join(d.FS.Rename(path+wholefile.New, path), wholefile.SyncDir(d.FS, d.Path(job)))
}
