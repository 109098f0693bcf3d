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

// An erasure forgets one address in the files of all jobs, finished or not. What names it in an upload becomes erasedText:
// the e-mail cell of each row of that address, and the address wherever else it stands in the upload by itself. Rows,
// their order, other cells and verdicts stay, so that counts and charges still follow from the file. A row that was not
// yet answered is never asked again: it is UNKNOWN/smtp_not_checked. The result file is made anew, with another sum.
//
// It is durable before Erase returns, and done again after any failure it ends where it would have ended:
//
//  1. In an unfinished job the row that would be asked is answered in the log; where a name has to go, the log is written anew.
//  2. A new upload, and a new answers file and result of a finished job, are written next to the old ones and synced.
//  3. One commit names them. What it named before is deleted; where a crash comes before that, each start does it.
//
// A download that was under way reads the old file to its end. A list that is being uploaded is not yet stored.

// erasedText stands where an address was.
const erasedText = "<erased>"

// notifyEvery is how often a runner is asked for its turn again: a ring between two steps is lost.
const notifyEvery = 20 * time.Millisecond

// Erase forgets an address, given in folded form, in the files of some jobs, or of all where none are named. found hears of each job
// that it stood in, and in how many rows, before that job is changed. A job that cannot be read fails alone: the others are done, and
// left are those that are not, with the error.
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

// unexpiredJobs are the jobs that have files.
func (c *Coordinator) unexpiredJobs() (ids []string, err error) {
	return ids, c.cfg.Store.AllJobs(func(j *store.Job) error {
		if j.State != store.JobExpired {
			ids = append(ids, j.ID)
		}
		return nil
	})
}

// eraseJob forgets an address in one job. A job that does not name it is only read, while all else goes on.
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
	if e.inUpload || e.inNames { // and not only the end of another erasure
		if err := found(id, e.rows); err != nil {
			return err
		}
	}
	return e.rewrite(ctx, j)
}

// ignoreNotFound passes over a job that was deleted meanwhile.
func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// ignoreExpired passes over a job whose files went while they were read.
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

// deleteFailedFiles deletes the files of a failed job: nothing can be served from them, and they may be damaged.
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

// jobLock lets one at a time work on the files of a job: its runner for a step, an erasure, its expiry.
type jobLock struct {
	slot  chan struct{}
	users int // who holds it or waits; guarded by Coordinator.mu
}

// lockJob locks a job; give ends it.
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

// interrupt takes the lock of a job from its runner, whose work ends in good order: as for a pause, but the state stays.
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
		r.notify()
	}
}
