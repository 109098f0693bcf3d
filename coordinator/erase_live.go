package coordinator

import (
	"errors"
	"io/fs"
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
	answered, _, err := e.c.readAnswers(j)
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

// searchRows looks for the address, and for what was suggested instead of it, in the names of the log.
func (e *erasure) searchRows(j *store.Job) error {
	disk, dir := e.c.cfg.FS, e.c.dir(j.ID)
	if err := e.c.takeOverLog(dir); err != nil {
		return err
	}
	f, err := disk.Open(disk.PathJoin(dir, fileRows))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a job that was not begun
	}
	if err != nil {
		return err
	}
	_, err = jobfiles.ReadRows(f, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.names = e.names || e.isNamed(name) })
	})
	return errors.Join(err, f.Close())
}

// writeRows writes the log anew if a name has to go: that becomes the empty name.
func (e *erasure) writeRows(dir string) error {
	if !e.names {
		return nil
	}
	disk := e.c.cfg.FS
	path := disk.PathJoin(dir, fileRows)
	f, err := disk.Open(path)
	if err != nil {
		return err
	}
	w, err := jobfiles.CreateRows(disk, path+fileNew)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = jobfiles.ReadRows(f, func(g *jobfiles.Group) error {
		return w.AddGroup(g, func(name string) string {
			if e.isNamed(name) {
				return ""
			}
			return name
		})
	})
	return errors.Join(w.Finish(err), f.Close())
}
