package coordinator

import (
	"cmp"
	"context"
	"errors"
	"time"

	"probity/store"
)

const (
	keepResults = 7 * 24 * time.Hour // after a job has finished
	houseEvery  = time.Hour
)

// keepHouse expires jobs whose time is over, hourly, until ctx ends.
func (c *Coordinator) keepHouse(ctx context.Context) error {
	t := time.NewTicker(houseEvery)
	defer t.Stop()
	for {
		if err := c.expireOld(time.Now()); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Coordinator) expireOld(now time.Time) error {
	var old []string
	err := c.cfg.Store.AllJobs(func(j *store.Job) error {
		if j.State.Finished() && j.State != store.JobExpired && now.Sub(j.FinishedAt) >= keepResults {
			old = append(old, j.ID)
		}
		return nil
	})
	for _, id := range old {
		err = errors.Join(err, c.Expire(id))
	}
	return err
}

// Expire deletes the files of a finished job; its record stays. The record says so first: a crash in between leaves
// files that the next start removes, never a job whose files are half gone.
func (c *Coordinator) Expire(id string) error {
	if j, err := c.Job(id); err != nil || !j.State.Finished() {
		return cmp.Or(err, ErrState)
	}
	give, err := c.takeTurn(context.Background(), id)
	if err != nil {
		return err
	}
	defer give()
	_, err = c.change(id, func(j *store.Job) error {
		if !j.State.Finished() {
			return ErrState
		}
		j.State = store.JobExpired
		return nil
	}, store.DropAllChunks(id))
	if err != nil {
		return err
	}
	return c.cfg.FS.RemoveAll(c.dir(id))
}

// Delete forgets a finished job, files first expired and gone, then its record.
func (c *Coordinator) Delete(id string) error {
	if err := c.Expire(id); err != nil {
		return err
	}
	return c.cfg.Store.DeleteJob(id)
}
