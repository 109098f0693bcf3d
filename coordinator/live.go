package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"probity/coordinator/sheet"
	"probity/store"
)

// live is a job while it is split, sent and collected: its open files and what is known of its rows.
type live struct {
	c       *Coordinator
	job     *store.Job // as it was when work on it was begun
	dir     string
	dialect sheet.Dialect
	ctx     context.Context

	spool   *spool
	dups    *dups
	names   *names
	log     *resultLog
	logging bool // work has begun, and closes the log
	chunks  *chunkFile

	answered bitset // in the log, or on the way there
	taken    bitset // in a chunk, or on the way there; only while the job is split

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

	landing  chan landing
	finished chan struct{} // closed when nothing is left to ask
	finish   sync.Once
	failed   chan error

	progress progress
}

// maxLanding is how many chunks may wait for their commit before probers wait.
const maxLanding = 256

func (c *Coordinator) newLive(ctx context.Context, j *store.Job) *live {
	return &live{
		c: c, job: j, dir: c.dir(j.ID), ctx: ctx, queues: map[string]*queue{}, paces: map[string]*classPace{}, landing: make(chan landing, maxLanding),
		finished: make(chan struct{}), failed: make(chan error, 1), answered: newBitset(j.Rows),
	}
}

// open opens the job's files and learns from them what was done before.
func (l *live) open() (err error) {
	fs := l.c.cfg.FS
	if err := json.Unmarshal(l.job.Sheet, &l.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if l.spool, err = l.c.openSheet(l.dir); err != nil {
		return err
	}
	if l.dups, err = openDups(fs, l.dir, l.job.Duplicates > 0); err != nil {
		return err
	}
	if l.names, err = openNames(fs, fs.PathJoin(l.dir, fileNames)); err != nil {
		return err
	}
	l.progress.begin(l.job, time.Now())
	if l.log, err = openLog(fs, fs.PathJoin(l.dir, fileLog), l.names, l.replay); err != nil {
		return err
	}
	l.log.after, l.log.room = l.c.flushAfter, &l.c.spares.buffers
	if l.chunks, err = openChunkFile(fs, fs.PathJoin(l.dir, fileChunks)); err != nil {
		return err
	}
	if err := syncDir(fs, l.dir); err != nil {
		return err
	}
	return l.readChunks()
}

// replay learns from a group of the log which rows are answered.
func (l *live) replay(entries []byte) error {
	for ; len(entries) > 0; entries = entries[entryBytes:] {
		row := entryRow(entries)
		if int64(row) >= l.job.Rows || int(entryReason(entries)) >= reasons {
			return fmt.Errorf("log: row %d of %d: %w", row, l.job.Rows, errDamaged)
		}
		if entryTag(entries) == tagFinal && l.answered.add(row) {
			l.progress.count(entryReason(entries))
		}
	}
	return nil
}

// readChunks finds the chunks that exist, and which rows they hold if the split has to go on.
func (l *live) readChunks() error {
	var all []store.Chunk
	err := l.c.cfg.Store.Chunks(l.job.ID, func(c store.Chunk) error {
		all = append(all, c)
		l.chunks.number = max(l.chunks.number, c.Number)
		return nil
	})
	if err != nil {
		return err
	}
	if !l.job.SplitDone {
		l.taken = newBitset(l.job.Rows)
		var room buffer
		for _, c := range all {
			b, err := l.chunks.read(c, &room)
			if err == nil {
				err = chunkNumbers(b, l.c.table.Load(), func(row uint32) { l.taken.add(row) })
			}
			if err != nil {
				return fmt.Errorf("chunk %d: %w", c.Number, err)
			}
		}
	}
	l.alive.Store(int64(len(all)))
	l.c.desk.add(l, all)
	return nil
}

// work splits, sends and collects until nothing is left to ask or ctx ends. Nothing of it is left when it returns.
func (l *live) work() error {
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(l.ctx)
	l.ctx = ctx
	l.logging = true
	go l.log.run()
	all.Go(l.land)
	if l.job.SplitDone {
		l.split.Store(true)
		l.checkFinished()
	} else {
		all.Go(func() {
			if err := l.splitSheet(); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("split: %w", err))
			}
		})
	}
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
	close(l.landing)
	all.Wait()
	return errors.Join(err, l.lateFailure(err), l.log.close())
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

func (l *live) wide(class string) bool {
	p := l.c.table.Load().Provider(class)
	return p != nil && p.Wide
}

// close closes the files.
func (l *live) close() error {
	var errs []error
	if l.log != nil && !l.logging {
		errs = append(errs, l.log.f.Close())
	}
	if l.spool != nil {
		errs = append(errs, l.spool.Close())
	}
	if l.dups != nil {
		errs = append(errs, l.dups.Close())
	}
	if l.names != nil {
		errs = append(errs, l.names.Close())
	}
	if l.chunks != nil {
		errs = append(errs, l.chunks.f.Close())
	}
	return errors.Join(errs...)
}
