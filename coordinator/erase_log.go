package coordinator

import (
	"errors"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/store"
)

const ruleErased = "coordinator/erased"

// answerErasedRow keeps an unfinished job from probing the address: it answers the address's first row in the log, which
// counts for its duplicates too. The chunks that contained it are gone.
func (e *erasure) answerErasedRow(j *store.Job) error {
	if e.row < 0 {
		return nil
	}
	answered, _, err := e.c.answeredRows(j)
	if err != nil || answered.Has(uint32(e.row)) {
		return err
	}
	disk := e.c.cfg.FS
	log, _, err := jobfiles.OpenRows(disk, disk.PathJoin(e.c.dir(j.ID), fileRows), nil, func(*jobfiles.Group) error { return nil })
	if err != nil {
		return err
	}
	now := time.Now()
	v := engine.VerdictFor(engine.ReasonSMTPNotChecked, ruleErased, 0, now)
	log.Start()
	err = log.Add([]jobfiles.Row{logRow(&chunks.Row{Number: uint32(e.row)}, jobfiles.Final, &v, now)})
	return errors.Join(err, log.Close())
}

// searchAnswers looks for the address and its suggestions in the names of the answers.
func (e *erasure) searchAnswers(j *store.Job) error {
	f, err := e.c.openAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = results.ReadAnswers(j, f, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.inNames = e.inNames || e.mustErase(name) })
	})
	return errors.Join(err, f.Close())
}

// rewriteLog removes the address from the log of an unfinished job and keeps the job from probing it. If the log has a name to
// erase, the log is rewritten with an empty name.
func (e *erasure) rewriteLog(j *store.Job) error {
	disk, dir := e.c.cfg.FS, e.c.dir(j.ID)
	if err := errors.Join(e.answerErasedRow(j), removeIfExists(disk, disk.PathJoin(dir, fileChunks))); err != nil {
		return err // the job's next step reads the files again
	}
	if !e.inNames {
		return nil
	}
	return e.c.replaceLog(dir, func(w *jobfiles.RowsWriter) error { return e.copyTo(w, j) })
}

// replaceLog replaces a job's log of rows atomically and durably.
func (c *Coordinator) replaceLog(dir string, write func(*jobfiles.RowsWriter) error) error {
	disk := c.cfg.FS
	path := disk.PathJoin(dir, fileRows)
	f, err := disk.Create(path+wholefile.New, writeCategory)
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
	return errors.Join(disk.Rename(path+wholefile.New, path), wholefile.SyncDir(disk, dir))
}

// copyAnswers writes the answers file of a finished job without the erased names.
func (e *erasure) copyAnswers(j *store.Job) (made *store.AnswersFile, err error) {
	w, err := e.c.createAnswers(j.ID)
	if err != nil {
		return nil, err
	}
	w.File.Rows = j.Answers.Rows
	err = e.copyTo(w.Rows, j)
	if err == nil {
		err = w.Finish()
	}
	return &w.File, errors.Join(err, w.Abort())
}

// copyTo copies the answers of a job without the erased names.
func (e *erasure) copyTo(w *jobfiles.RowsWriter, j *store.Job) error {
	f, err := e.c.openAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = results.ReadAnswers(j, f, func(g *jobfiles.Group) error {
		return w.AddGroup(g, func(name string) string {
			if e.mustErase(name) {
				return ""
			}
			return name
		})
	})
	return errors.Join(err, f.Close())
}
