package coordinator

import (
	"context"
	"errors"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

const ruleErased = "coordinator/erased"

// forgetAsks sees to it that an unfinished job never asks for the address again: its first row, for which its duplicates stand, is
// answered in the log. What chunks named it are gone with the work.
func (e *erasure) forgetAsks(j *store.Job) error {
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
	v := engine.Sure(engine.ReasonSMTPNotChecked, ruleErased, 0, now)
	log.Start()
	err = log.Add([]jobfiles.Row{(&ask{Number: uint32(e.row)}).answer(jobfiles.Final, &v, now)})
	return errors.Join(err, log.Close())
}

// searchAnswers looks for the address, and for what was suggested instead of it, in the names of the answers.
func (e *erasure) searchAnswers(j *store.Job) error {
	f, err := e.c.openAnswers(j)
	if err != nil || f == nil {
		return err
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.names = e.names || e.isNamed(name) })
	})
	return errors.Join(err, f.Close())
}

// writeAnswers writes the answers anew if a name has to go: that becomes the empty name. It gives the job as it is then.
func (e *erasure) writeAnswers(ctx context.Context, j *store.Job) (*store.Job, error) {
	if !e.names {
		return j, nil
	}
	if hasResults(j) && j.Answers == nil { // of an older program
		var err error
		if j, err = e.c.remakeResults(ctx, j); err != nil {
			return nil, err
		}
	}
	name := fileRows + fileNew
	if j.Answers != nil {
		name = newName(fileAnswers)
	}
	made, err := e.copyAnswers(j, name)
	if err != nil {
		return nil, err
	}
	disk, dir := e.c.cfg.FS, e.c.dir(j.ID)
	if j.Answers == nil {
		if err := disk.Rename(disk.PathJoin(dir, name), disk.PathJoin(dir, fileRows)); err != nil {
			return nil, err
		}
		return j, syncDir(disk, dir)
	}
	if err := syncDir(disk, dir); err != nil {
		return nil, err
	}
	now, err := e.c.change(j.ID, func(j *store.Job) error {
		j.Answers = made
		return nil
	})
	if err != nil {
		return nil, err
	}
	return now, e.c.sweepFiles(now)
}

// copyAnswers writes the answers of a job without the names that have to go.
func (e *erasure) copyAnswers(j *store.Job, name string) (*store.AnswersFile, error) {
	f, err := e.c.openAnswers(j)
	if err != nil {
		return nil, err
	}
	disk := e.c.cfg.FS
	w, err := jobfiles.CreateRows(disk, disk.PathJoin(e.c.dir(j.ID), name))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = readAnswers(j, f, func(g *jobfiles.Group) error {
		return w.AddGroup(g, func(name string) string {
			if e.isNamed(name) {
				return ""
			}
			return name
		})
	})
	err = errors.Join(w.Finish(err), f.Close())
	made := &store.AnswersFile{Name: name, Bytes: w.End().At, Sum: w.End().Sum}
	if j.Answers != nil {
		made.Rows = j.Answers.Rows
	}
	return made, err
}
