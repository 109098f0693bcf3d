package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
	"probity/store"
)

// live is a job while it is split, sent and collected: its open files and what is known of its rows.
type live struct {
	c       *Coordinator
	job     *store.Job // as it was when work on it was begun
	dir     string
	dialect csvfile.Dialect
	ctx     context.Context

	upload  *jobfiles.Upload
	log     *jobfiles.RowsLog
	logging bool // work has begun, and closes the log
	chunks  *chunkFile

	answered bitset        // in the log, or on the way there
	taken    bitset        // in a chunk, or on the way there
	deferred *deferredRows // until the job is split

	// The desk's mutex guards these.
	queues map[string]*queue
	line   []*queue
	turn   int // counts what was taken from the line
	paces  map[string]*classPace
	dues   dueHeap

	alive  atomic.Int64 // chunks that exist
	split  atomic.Bool  // the split is done
	unseen atomic.Int64 // rows whose domains could not be looked up so far, and are asked for again
	hungry atomic.Bool  // the desk has nothing ready: seal what is open
	out    sync.WaitGroup

	finished chan struct{} // closed when nothing is left to ask
	finish   sync.Once
	failed   chan error

	progress   progress
	duplicates duplicateCount
}

func (c *Coordinator) newLive(ctx context.Context, j *store.Job) *live {
	return &live{
		c: c, job: j, dir: c.dir(j.ID), ctx: ctx, queues: map[string]*queue{}, paces: map[string]*classPace{},
		finished: make(chan struct{}), failed: make(chan error, 1), answered: newBitset(j.Rows),
		taken: newBitset(j.Rows), deferred: newDeferredRows(time.Now()),
	}
}

// open opens the job's files and learns from them what was done before.
func (l *live) open() (err error) {
	fs := l.c.cfg.FS
	if err := json.Unmarshal(l.job.Sheet, &l.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if l.upload, err = l.c.openUpload(l.job); err != nil {
		return err
	}
	l.progress.begin(l.job, time.Now())
	if err := l.openRows(); err != nil {
		return err
	}
	if l.chunks, err = openChunkFile(fs, fs.PathJoin(l.dir, fileChunks)); err != nil {
		return err
	}
	return wholefile.SyncDir(fs, l.dir)
}

// work splits, sends and collects until nothing is left to ask or ctx ends. Nothing of it is left when it returns.
func (l *live) work() error {
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(l.ctx)
	l.ctx = ctx
	l.logging = true
	l.log.Start()
	all.Go(func() {
		if err := contained(l.splitSheet); err != nil && ctx.Err() == nil {
			l.fail(fmt.Errorf("split: %w", err))
		}
	})
	l.c.desk.enter(l)
	var err error
	select {
	case <-l.finished:
	case err = <-l.failed:
	case <-ctx.Done():
	}
	l.c.desk.leave(l)
	stop()
	l.out.Wait()
	all.Wait()
	return errors.Join(err, l.lateFailure(err), l.log.Close())
}

func (l *live) lateFailure(had error) error {
	select {
	case err := <-l.failed:
		if had == nil {
			return err
		}
	default:
	}
	return nil
}

// fail ends the work; the first failure counts.
func (l *live) fail(err error) {
	select {
	case l.failed <- err:
	default:
	}
}

// checkFinished ends the work when the split is done and no chunk exists.
func (l *live) checkFinished() {
	if l.split.Load() && l.alive.Load() == 0 {
		l.finish.Do(func() { close(l.finished) })
	}
}

// shared reports the class of a provider that many sources ask.
func (l *live) shared(class string) bool {
	p := l.c.table.Load().Provider(class)
	return p != nil && p.Shared()
}

// close closes the files.
func (l *live) close() error {
	var errs []error
	if l.log != nil && !l.logging {
		errs = append(errs, l.log.Close())
	}
	if l.upload != nil {
		errs = append(errs, l.upload.Close())
	}
	if l.chunks != nil {
		errs = append(errs, l.chunks.Close())
	}
	return errors.Join(errs...)
}
