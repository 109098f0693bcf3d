package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

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

// open opens the job's files and reads from its log which rows are answered and which were deferred.
func (job *runningJob) open() (err error) {
	c, fs, id := job.c, job.c.cfg.FS, job.record.ID
	if err := json.Unmarshal(job.record.Dialect, &job.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if job.upload, err = c.files.OpenUpload(job.record); err != nil {
		return err
	}
	if err := c.files.MigrateLog(id); err != nil {
		return err
	}
	log, end, err := jobfiles.OpenRows(fs, c.files.Path(id, jobdir.FileRows), c.flushAfter, job.replay)
	if err != nil {
		return err
	}
	job.log = log
	if end.Damaged > 0 {
		c.metrics.damaged.Add(int64(end.Damaged))
		c.log.Error("a part of the log of a job's rows is damaged: its rows are asked again", "job", id, "groups", end.Damaged)
		if err := c.setDamage(id, msgAskedAgain); err != nil {
			return err
		}
	}
	path := c.files.Path(id, jobdir.FileChunks)
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	job.chunks = &chunkFile{disk: fs, path: path, f: f, buffers: &c.buffers}
	job.progress.begin(time.Now())
	return wholefile.SyncDir(fs, c.files.Path(id))
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
	if err == nil {
		select {
		case err = <-job.failed:
		default:
		}
	}
	return errors.Join(err, job.log.Close())
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

func (job *runningJob) close() (err error) {
	if job.log != nil && !job.logStarted {
		err = job.log.Close()
	}
	if job.upload != nil {
		err = errors.Join(err, job.upload.Close())
	}
	if job.chunks != nil {
		err = errors.Join(err, job.chunks.Close())
	}
	return err
}
