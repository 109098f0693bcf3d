package coordinator

import (
	"cmp"
	"context"
	"time"

	"probity/store"
)

// Limits of how long the results of a job are kept after its end.
const (
	MinRetention     = 24 * time.Hour
	DefaultRetention = 7 * 24 * time.Hour
	MaxRetention     = 30 * 24 * time.Hour
)

// Expire deletes the files of a job that is finished or was not started; its record stays. The record is changed first:
// after a crash in between the next start removes the files, and no job is left with part of its files.
func (c *Coordinator) Expire(id string) error {
	j, err := c.Job(id)
	// before the lock, which the runner would hold if the job were started meanwhile
	if err == nil && j.State == store.JobReady {
		err = c.setExpired(id, func(s store.JobState) bool { return s == store.JobReady || s == store.JobExpired })
	} else if err == nil && !j.State.Finished() {
		err = ErrState
	}
	if err != nil {
		return err
	}
	unlock, err := c.files.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.setExpired(id, store.JobState.Finished); err != nil {
		return err
	}
	return c.cfg.FS.RemoveAll(c.files.Path(id))
}

// setExpired commits that a job is expired, if it is in one of the states that may change to it.
func (c *Coordinator) setExpired(id string, may func(store.JobState) bool) error {
	_, err := c.updateJob(id, func(j *store.Job) error {
		if !may(j.State) {
			return ErrState
		}
		j.State, j.ExpiredAt = store.JobExpired, cmp.Or(j.ExpiredAt, time.Now().UTC())
		j.Tally = nil
		return nil
	}, partsOf(c.cfg.OnExpire, id)...)
	return err
}

// Delete deletes a job that is finished or was not started: first its files, then its record.
func (c *Coordinator) Delete(id string) error {
	if err := c.Expire(id); err != nil {
		return err
	}
	return c.cfg.Store.DeleteJob(id, partsOf(c.cfg.OnDelete, id)...)
}

// partsOf returns the part that a setting adds to a commit about a job, if it is set.
func partsOf(part func(job string) store.Part, id string) []store.Part {
	if part == nil {
		return nil
	}
	return []store.Part{part(id)}
}

// ResultRetention returns how long the results of a job are kept after its end.
func (c *Coordinator) ResultRetention() time.Duration { return c.cfg.RetainResults }

// ExpiresAt returns when the files of a job expire; zero while that is unknown.
func (c *Coordinator) ExpiresAt(id string) time.Time {
	j, err := c.Job(id)
	if err != nil || !j.State.Finished() {
		return time.Time{}
	}
	return j.FinishedAt.Add(c.cfg.RetainResults)
}

// removeOrphans deletes the files of a job that its record does not name. What cannot be deleted is logged. The job's
// lock is held.
func (c *Coordinator) removeOrphans(id string) error {
	return c.sweeper.LogUnlessFatal(c.files.RemoveOrphans(id), "unused files of a job were not removed", "job", id)
}
