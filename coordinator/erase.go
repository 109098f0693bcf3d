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

// An erasure forgets one address in the files of all jobs, finished or not. What names it in a sheet becomes erasedText:
// the e-mail cell of each row of that address, and the address wherever else it stands in the sheet by itself. Rows,
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

// ringEvery is how often a runner is asked for its turn again: a ring between two steps is lost.
const ringEvery = 20 * time.Millisecond

// Erase forgets an address, given in folded form, in the files of some jobs, or of all where none are named. found hears of each job
// that it stood in, and in how many rows, before that job is changed. A job that cannot be read fails alone: the others are done, and
// left are those that are not, with the error.
func (c *Coordinator) Erase(ctx context.Context, folded string, jobs []string, found func(job string, rows int64) error) (left []string, err error) {
	a, err := engine.Parse(folded)
	if err != nil {
		return nil, fmt.Errorf("address to erase: %w", err)
	}
	if err := acquire(ctx, c.erasing); err != nil {
		return jobs, err
	}
	defer func() { <-c.erasing }()
	if len(jobs) == 0 {
		if jobs, err = c.unexpired(); err != nil {
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

// unexpired are the jobs that have files.
func (c *Coordinator) unexpired() (ids []string, err error) {
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
		return unlessGone(err)
	}
	e := &erasure{c: c, folded: a.Folded(), hints: map[string]bool{}}
	if j.State != store.JobFailed {
		if err := e.search(ctx, j); err != nil {
			return c.unlessExpired(id, err)
		}
		if !e.found() {
			return nil
		}
	}
	give, err := c.interrupt(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	j, err = c.Job(id)
	switch {
	case err != nil:
		return unlessGone(err)
	case j.State == store.JobExpired:
		return nil
	case j.State == store.JobFailed:
		return c.dropFailed(j)
	}
	if e.sheet || e.names { // and not only the end of another erasure
		if err := found(id, e.rows); err != nil {
			return err
		}
	}
	return e.rewrite(ctx, j)
}

// unlessGone passes over a job that was deleted meanwhile.
func unlessGone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// unlessExpired passes over a job whose files went while they were read.
func (c *Coordinator) unlessExpired(id string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j, again := c.Job(id)
	if again != nil || j.State == store.JobExpired {
		return unlessGone(again)
	}
	return err
}

// dropFailed deletes the files of a failed job: nothing can be served from them, and they may be damaged.
func (c *Coordinator) dropFailed(j *store.Job) error {
	dir := c.dir(j.ID)
	left, err := c.cfg.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range left {
		err = errors.Join(err, removeAny(c.cfg.FS, c.cfg.FS.PathJoin(dir, name)))
	}
	return errors.Join(err, wholefile.SyncDir(c.cfg.FS, dir))
}

// turn lets one at a time work on the files of a job: its runner for a step, an erasure, its expiry.
type turn struct {
	place chan struct{}
	users int // who holds it or waits; guarded by Coordinator.mu
}

// takeTurn waits for the turn of a job; give ends it.
func (c *Coordinator) takeTurn(ctx context.Context, id string) (give func(), err error) {
	c.mu.Lock()
	t := c.turns[id]
	if t == nil {
		t = &turn{place: make(chan struct{}, 1)}
		c.turns[id] = t
	}
	t.users++
	c.mu.Unlock()
	if err := acquire(ctx, t.place); err != nil {
		c.leaveTurn(id, t)
		return nil, err
	}
	return func() { <-t.place; c.leaveTurn(id, t) }, nil
}

func (c *Coordinator) leaveTurn(id string, t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(c.turns, id)
	}
}

// tryTurn takes the turn of a job if it is free.
func (c *Coordinator) tryTurn(id string) (give func(), free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[id] != nil {
		return nil, false
	}
	t := &turn{place: make(chan struct{}, 1), users: 1}
	t.place <- struct{}{}
	c.turns[id] = t
	return func() { <-t.place; c.leaveTurn(id, t) }, true
}

// interrupt takes the turn of a job from its runner, whose work ends in good order: as for a pause, but the state stays.
func (c *Coordinator) interrupt(ctx context.Context, id string) (give func(), err error) {
	taken := make(chan struct{})
	var ringing sync.WaitGroup
	ringing.Go(func() {
		t := time.NewTicker(ringEvery)
		defer t.Stop()
		for {
			c.ring(id)
			select {
			case <-t.C:
			case <-taken:
				return
			}
		}
	})
	give, err = c.takeTurn(ctx, id)
	close(taken)
	ringing.Wait()
	return give, err
}

// ring makes the runner of a job look at it again, if it has one.
func (c *Coordinator) ring(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		r.ring()
	}
}
