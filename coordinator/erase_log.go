package coordinator

import (
	"errors"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/store"
)

const ruleErased = "coordinator/erased"

// answerErasedRow sees to it that an unfinished job never asks for the address again: its first row, for which its duplicates stand, is
// answered in the log. What chunks named it are gone with the work.
func (e *erasure) answerErasedRow(j *store.Job) error {
	if e.row < 0 {
		return nil
	}
	answered, _, err := e.c.answeredRows(j)
	if err != nil || answered.has(uint32(e.row)) {
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
	err = log.Add([]jobfiles.Row{(&chunkRow{Number: uint32(e.row)}).answer(jobfiles.Final, &v, now)})
	return errors.Join(err, log.Close())
}

// searchAnswers looks for the address, and for what was suggested instead of it, in the names of the answers.
func (e *erasure) searchAnswers(j *store.Job) error {
	f, err := e.c.openAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.inNames = e.inNames || e.mustErase(name) })
	})
	return errors.Join(err, f.Close())
}

// rewriteLog sees to it that an unfinished job neither asks for the address nor names it in its log: where a name has to go, the log is
// written anew with the empty name for it.
func (e *erasure) rewriteLog(j *store.Job) error {
	disk, dir := e.c.cfg.FS, e.c.dir(j.ID)
	if err := errors.Join(e.answerErasedRow(j), removeIfExists(disk, disk.PathJoin(dir, fileChunks))); err != nil {
		return err // the job's next step reads what is on the disk
	}
	if !e.inNames {
		return nil
	}
	return e.c.replaceLog(dir, func(w *jobfiles.RowsWriter) error { return e.copyTo(w, j) })
}

// replaceLog has another log of rows take the place of a job's log, whole and durable or not at all.
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

// copyAnswers writes the answers file of a finished job without the names that have to go.
func (e *erasure) copyAnswers(j *store.Job) (made *store.AnswersFile, err error) {
	w, err := e.c.createAnswers(j.ID, nil)
	if err != nil {
		return nil, err
	}
	w.file.Rows = j.Answers.Rows
	err = e.copyTo(w.rows, j)
	if err == nil {
		err = w.finish()
	}
	return &w.file, errors.Join(err, w.Abort())
}

// copyTo copies the answers of a job without the names that have to go.
func (e *erasure) copyTo(w *jobfiles.RowsWriter, j *store.Job) error {
	f, err := e.c.openAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		return w.AddGroup(g, func(name string) string {
			if e.mustErase(name) {
				return ""
			}
			return name
		})
	})
	return errors.Join(err, f.Close())
}
