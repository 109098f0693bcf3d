package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"probity/engine"
	"probity/internal/wholefile"
	"probity/store"
)

// An erasure removes one address from the files of all jobs, finished or not. In an upload it becomes erasedText: in the
// e-mail cell of each row of that address, and wherever else the address stands by itself. Row count, order, other cells
// and verdicts stay, so that counts and charges still match the file. A row without an answer is never probed again: it is
// UNKNOWN/smtp_not_checked. The result file is made again, with another checksum.
//
// It is durable before Erase returns. It is idempotent: repeated after any failure, it has the same result.
//
//  1. In an unfinished job the row is answered in the log. If the log has a name to erase, the log is rewritten.
//  2. A new upload, and a new answers file and result of a finished job, are written next to the old ones and synced.
//  3. One commit names the new files. The old ones are deleted; after a crash the next start deletes them.
//
// A download in progress reads the old file to its end. A list that is still being uploaded is not searched.

// erasedText replaces an erased address.
const erasedText = "<erased>"

// notifyEvery is how often a runner is asked again for the lock of its job: a notification between two steps is lost.
const notifyEvery = 20 * time.Millisecond

// Erase erases an address, given in folded form, in the files of the given jobs, or of all if none are given. found is called
// for each job that contains it, with the number of rows, before that job is changed. A job that cannot be read does not stop
// the others: left are the jobs that are not done, with the errors.
func (c *Coordinator) Erase(ctx context.Context, folded string, jobs []string, found func(job string, rows int64) error) (left []string, err error) {
	a, err := engine.Parse(folded)
	if err != nil {
		return nil, fmt.Errorf("address to erase: %w", err)
	}
	if err := acquire(ctx, c.eraseSlots); err != nil {
		return jobs, err
	}
	defer func() { <-c.eraseSlots }()
	if len(jobs) == 0 {
		if jobs, err = c.unexpiredJobs(); err != nil {
			return nil, err
		}
	}
	var errs []error
	for i, id := range jobs {
		err := c.eraseJob(ctx, id, a, found)
		if err != nil && ctx.Err() != nil {
			return append(left, jobs[i:]...), errors.Join(append(errs, err)...)
		}
		if err != nil {
			left = append(left, id)
			errs = append(errs, fmt.Errorf("job %s: %w", id, err))
		}
	}
	return left, errors.Join(errs...)
}

// unexpiredJobs returns the jobs that have files.
func (c *Coordinator) unexpiredJobs() (ids []string, err error) {
	return ids, c.cfg.Store.AllJobs(func(j *store.Job) error {
		if j.State != store.JobExpired {
			ids = append(ids, j.ID)
		}
		return nil
	})
}

// eraseJob erases an address in one job. A job that does not contain it is only read and not interrupted.
func (c *Coordinator) eraseJob(ctx context.Context, id string, a engine.Address, found func(string, int64) error) error {
	j, err := c.Job(id)
	if err != nil {
		return ignoreNotFound(err)
	}
	e := &erasure{c: c, folded: a.Folded(), suggestions: map[string]bool{}}
	if j.State != store.JobFailed {
		if err := e.search(ctx, j); err != nil {
			return c.ignoreExpired(id, err)
		}
		if !e.isFound() {
			return nil
		}
	}
	unlock, err := c.interrupt(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	j, err = c.Job(id)
	switch {
	case err != nil:
		return ignoreNotFound(err)
	case j.State == store.JobExpired:
		return nil
	case j.State == store.JobFailed:
		return c.deleteFailedFiles(j)
	}
	if e.inUpload || e.inNames { // not only files left by another erasure
		if err := found(id, e.rows); err != nil {
			return err
		}
	}
	return e.rewrite(ctx, j)
}

// ignoreNotFound ignores that a job was deleted meanwhile.
func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// ignoreExpired ignores a missing file if the job has expired or was deleted meanwhile.
func (c *Coordinator) ignoreExpired(id string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j, again := c.Job(id)
	if again != nil || j.State == store.JobExpired {
		return ignoreNotFound(again)
	}
	return err
}

// deleteFailedFiles deletes the files of a failed job: they have no use, and may be damaged.
func (c *Coordinator) deleteFailedFiles(j *store.Job) error {
	dir := c.dir(j.ID)
	left, err := c.cfg.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range left {
		err = errors.Join(err, removeIfExists(c.cfg.FS, c.cfg.FS.PathJoin(dir, name)))
	}
	return errors.Join(err, wholefile.SyncDir(c.cfg.FS, dir))
}

// jobLock is held while the files of a job are changed: by its runner for a step, by an erasure, or by its expiry.
type jobLock struct {
	slot  chan struct{}
	users int // holder and waiters; guarded by Coordinator.mu
}

// lockJob locks a job; unlock unlocks it.
func (c *Coordinator) lockJob(ctx context.Context, id string) (unlock func(), err error) {
	c.mu.Lock()
	t := c.jobLocks[id]
	if t == nil {
		t = &jobLock{slot: make(chan struct{}, 1)}
		c.jobLocks[id] = t
	}
	t.users++
	c.mu.Unlock()
	if err := acquire(ctx, t.slot); err != nil {
		c.releaseJobLock(id, t)
		return nil, err
	}
	return func() { <-t.slot; c.releaseJobLock(id, t) }, nil
}

func (c *Coordinator) releaseJobLock(id string, t *jobLock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(c.jobLocks, id)
	}
}

// tryLockJob locks a job if it is not locked.
func (c *Coordinator) tryLockJob(id string) (unlock func(), free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobLocks[id] != nil {
		return nil, false
	}
	t := &jobLock{slot: make(chan struct{}, 1), users: 1}
	t.slot <- struct{}{}
	c.jobLocks[id] = t
	return func() { <-t.slot; c.releaseJobLock(id, t) }, true
}

// interrupt makes the runner of a job stop, as for a pause but without a change of state, and takes the job's lock.
func (c *Coordinator) interrupt(ctx context.Context, id string) (unlock func(), err error) {
	locked := make(chan struct{})
	var notifying sync.WaitGroup
	notifying.Go(func() {
		t := time.NewTicker(notifyEvery)
		defer t.Stop()
		for {
			c.notifyRunner(id)
			select {
			case <-t.C:
			case <-locked:
				return
			}
		}
	})
	unlock, err = c.lockJob(ctx, id)
	close(locked)
	notifying.Wait()
	return unlock, err
}

// notifyRunner makes the runner of a job look at it again, if it has one.
func (c *Coordinator) notifyRunner(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		r.wake.notify()
	}
}
