package coordinator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"probity/store"
)

// Limits of how long the results of a job are kept after its end.
const (
	MinRetention     = 24 * time.Hour
	DefaultRetention = 7 * 24 * time.Hour
	MaxRetention     = 30 * 24 * time.Hour
)

const retentionEvery = time.Hour

// runRetention checks the clock each minute, and each hour expires jobs and deletes old records, until ctx ends. A failed removal
// is tried again an hour later.
func (c *Coordinator) runRetention(ctx context.Context) error {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	for last, kept := time.Now(), time.Now(); ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if by := clockStep(now.Round(0).Sub(last.Round(0)), now.Sub(last)); by != 0 {
			c.clockTrust.adjust(now, by)
			c.log.Warn("the clock was set: nothing expires for a while", "by", by)
			c.scheduler.Wake()
		}
		if err := c.cfg.Store.SaveClock(now); err != nil {
			return err
		}
		if last = now; now.Sub(kept) < retentionEvery {
			continue
		}
		kept = now
		ended := func(s store.JobState) bool { return s.Finished() && s != store.JobExpired }
		expired := c.endAll(now, c.cfg.RetainResults, ended, c.Expire, "a job could not be expired")
		deleted := c.deleteOldRecords(now)
		orphans := c.logUnlessFatal(c.removeOrphanFolders(), "orphaned job folders were not looked for")
		if err := errors.Join(expired, deleted, orphans); err != nil {
			return err
		}
	}
}

// logUnlessFatal logs and counts a failure that is retried in an hour. It returns only a failure of the state store.
func (c *Coordinator) logUnlessFatal(err error, what string, args ...any) error {
	if err == nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	c.metrics.retentionErrors.Add(1)
	c.log.Error(what+": it is tried again in an hour", append(args, "error", err)...)
	return nil
}

// visitJobs visits the records of jobs up to the first unreadable one, which it logs.
func (c *Coordinator) visitJobs(visit func(*store.Job) error) error {
	return c.logUnlessFatal(c.cfg.Store.AllJobs(visit), "not all records of jobs were read")
}

// endAll expires or deletes the jobs in some states whose files or records were kept for as long as they may be.
func (c *Coordinator) endAll(now time.Time, kept time.Duration, in func(store.JobState) bool, end func(id string) error, failed string) error {
	var old []string
	err := c.visitJobs(func(j *store.Job) error {
		if in(j.State) && !now.Before(c.clockTrust.notBefore(j.FinishedAt.Add(kept))) {
			old = append(old, j.ID)
		}
		return nil
	})
	for _, id := range old {
		if failure := end(id); errors.Is(failure, store.ErrNotFound) { // it was deleted meanwhile
			continue
		} else if err := c.logUnlessFatal(failure, failed, "job", id); err != nil {
			return err
		}
	}
	return err
}

// deleteOldRecords deletes the records of expired jobs and of downloads that are older than RetainHistory.
func (c *Coordinator) deleteOldRecords(now time.Time) error {
	if c.cfg.RetainHistory == 0 {
		return nil
	}
	err := c.endAll(now, c.cfg.RetainHistory, func(s store.JobState) bool { return s == store.JobExpired }, c.Delete, "the record of a job could not be deleted")
	if err == nil && !now.Before(c.clockTrust.notBefore(time.Time{})) {
		_, err = c.cfg.Store.SweepDownloads(now.Add(-c.cfg.RetainHistory))
		err = c.logUnlessFatal(err, "not all old records of downloads were deleted")
	}
	return err
}

// Expire deletes the files of a finished job; its record stays. The record is changed first: after a crash in between the next
// start removes the files, and no job is left with part of its files.
func (c *Coordinator) Expire(id string) error {
	if j, err := c.Job(id); err != nil || !j.State.Finished() {
		return cmp.Or(err, ErrState)
	}
	unlock, err := c.files.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = c.updateJob(id, func(j *store.Job) error {
		if !j.State.Finished() {
			return ErrState
		}
		j.State, j.ExpiredAt = store.JobExpired, cmp.Or(j.ExpiredAt, time.Now().UTC())
		return nil
	})
	if err != nil {
		return err
	}
	return c.cfg.FS.RemoveAll(c.files.Path(id))
}

// Delete deletes a finished job: first its files, then its record.
func (c *Coordinator) Delete(id string) error {
	if err := c.Expire(id); err != nil {
		return err
	}
	return c.cfg.Store.DeleteJob(id)
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

// removeOrphanFolders removes the folders of jobs that have expired or that the store does not know (broken uploads). In
// the other folders it removes the objects that no record names.
func (c *Coordinator) removeOrphanFolders() error {
	fs, dir := c.cfg.FS, c.files.Dir
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	found, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(found)
	for _, id := range found {
		if c.receiver.Receiving(id) { // checked first: after an upload the store has the job, or its folder is gone
			continue
		}
		if j, err := c.cfg.Store.Job(id); err == nil && j.State != store.JobExpired {
			if err := c.logUnlessFatal(c.files.RemoveOrphansIfIdle(id), "unused files of a job were not removed", "job", id); err != nil {
				return err
			}
			continue
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := fs.RemoveAll(c.files.Path(id)); err != nil {
			c.metrics.retentionErrors.Add(1)
			c.log.Error("the folder of a deleted job cannot be removed: it is tried again in an hour", "job", id, "error", err)
		}
	}
	return nil
}

// reconcileFiles makes the files of a job match its record, and returns the new record: files of an older version are migrated,
// and objects that the record does not name are deleted. The job's lock is held.
func (c *Coordinator) reconcileFiles(j *store.Job) (*store.Job, error) {
	j, err := c.files.MigrateUpload(j)
	if err != nil {
		return nil, err
	}
	return j, c.logUnlessFatal(c.files.RemoveOrphans(j.ID), "unused files of a job were not removed", "job", j.ID)
}
