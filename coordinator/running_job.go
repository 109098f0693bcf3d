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
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/internal/pipeline"
	"probity/internal/wholefile"
	"probity/store"
)

// runningJob is a job while it is split, sent and collected: its open files and the state of its rows.
type runningJob struct {
	c       *Coordinator
	record  *store.Job // as it was when the work started
	dialect csvfile.Dialect
	ctx     context.Context

	upload     *jobfiles.Upload
	log        *jobfiles.RowsLog
	logStarted bool // work was called, and closes the log
	chunks     *chunkFile

	answered jobfiles.RowSet // in the log, or soon
	chunked  jobfiles.RowSet // in a chunk, or soon
	deferred *deferredRows   // nil once the job is split

	// The scheduler's mutex guards these.
	queues   map[string]*classQueue
	eligible []*classQueue
	picks    int // counts the picks from eligible
	rates    map[string]*classRate
	delayed  delayHeap

	chunkCount     atomic.Int64 // chunks that exist
	splitDone      atomic.Bool
	unresolvedRows atomic.Int64 // rows whose domains are looked up again after a failure
	wantsMore      atomic.Bool  // the scheduler has nothing ready: flush the open chunks
	dispatches     sync.WaitGroup

	finished chan struct{} // closed when no row is left to probe
	finish   sync.Once
	failed   chan error

	progress   progress
	duplicates duplicateCount
}

func (c *Coordinator) newRunningJob(ctx context.Context, j *store.Job) *runningJob {
	return &runningJob{
		c: c, record: j, ctx: ctx, queues: map[string]*classQueue{}, rates: map[string]*classRate{},
		finished: make(chan struct{}), failed: make(chan error, 1), answered: jobfiles.NewRowSet(j.Rows),
		chunked: jobfiles.NewRowSet(j.Rows), deferred: newDeferredRows(time.Now()),
	}
}

// open opens the job's files and reads from them what was done before.
func (job *runningJob) open() (err error) {
	fs := job.c.cfg.FS
	if err := json.Unmarshal(job.record.Dialect, &job.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if job.upload, err = job.c.files.OpenUpload(job.record); err != nil {
		return err
	}
	job.progress.begin(job.record, time.Now())
	if err := job.openRowsLog(); err != nil {
		return err
	}
	if job.chunks, err = openChunkFile(fs, job.c.files.Path(job.record.ID, jobdir.FileChunks)); err != nil {
		return err
	}
	return wholefile.SyncDir(fs, job.c.files.Path(job.record.ID))
}

// work splits, sends and collects until no row is left to probe or ctx ends. All its goroutines have ended when it returns.
func (job *runningJob) work() error {
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(job.ctx)
	job.ctx = ctx
	job.logStarted = true
	job.log.Start()
	all.Go(func() {
		if err := pipeline.Contain(job.splitUpload); err != nil && ctx.Err() == nil {
			job.fail(fmt.Errorf("split: %w", err))
		}
	})
	job.c.scheduler.addJob(job)
	var err error
	select {
	case <-job.finished:
	case err = <-job.failed:
	case <-ctx.Done():
	}
	job.c.scheduler.removeJob(job)
	stop()
	job.dispatches.Wait()
	all.Wait()
	return errors.Join(err, job.pendingFailure(err), job.log.Close())
}

func (job *runningJob) pendingFailure(earlier error) error {
	select {
	case err := <-job.failed:
		if earlier == nil {
			return err
		}
	default:
	}
	return nil
}

// fail ends the work; the first failure counts.
func (job *runningJob) fail(err error) {
	select {
	case job.failed <- err:
	default:
	}
}

// checkFinished ends the work when the split is done and no chunk exists.
func (job *runningJob) checkFinished() {
	if job.splitDone.Load() && job.chunkCount.Load() == 0 {
		job.finish.Do(func() { close(job.finished) })
	}
}

// isShared reports whether a class is a provider that many sources share.
func (job *runningJob) isShared(class string) bool {
	p := job.c.table.Load().Provider(class)
	return p != nil && p.Shared()
}

func (job *runningJob) close() error {
	var errs []error
	if job.log != nil && !job.logStarted {
		errs = append(errs, job.log.Close())
	}
	if job.upload != nil {
		errs = append(errs, job.upload.Close())
	}
	if job.chunks != nil {
		errs = append(errs, job.chunks.Close())
	}
	return errors.Join(errs...)
}
