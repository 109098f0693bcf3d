package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/csvfile"
	"probity/coordinator/dispatch"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/progress"
	"probity/coordinator/results"
	"probity/coordinator/split"
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
	file       *chunks.File
	deferred   *split.Deferred // for the split
	chunks     *dispatch.Job

	failed     chan error
	progress   *progress.Job
	duplicates progress.Duplicates
	outlook    outlook
}

// flushAfter is the sync interval of a job's log. All jobs together sync about as often as one alone: a sync costs the
// same however little it writes, and the probers' caches still have the answers that a crash loses.
func (c *Coordinator) flushAfter() time.Duration {
	return min(jobfiles.FlushAfter*time.Duration(max(1, len(c.runningSlots))), maxFlushAfter)
}

const maxFlushAfter = 10 * jobfiles.FlushAfter // with any number of jobs

// open opens the job's files and reads from its log which rows are answered and which were deferred.
func (job *runningJob) open() (err error) {
	c, fs, id := job.c, job.c.cfg.FS, job.record.ID
	if err := json.Unmarshal(job.record.Dialect, &job.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if job.upload, err = c.files.OpenUpload(job.record); err != nil {
		return err
	}
	log, end, err := jobfiles.OpenRows(fs, c.files.Path(id, jobdir.FileRows), c.flushAfter, job.replay)
	if err != nil {
		return err
	}
	job.log = log
	if end.Damaged > 0 {
		c.metrics.damaged.Add(int64(end.Damaged))
		c.log.Error("a part of the log of a job's rows is damaged: its rows are asked again", "job", id, "groups",
			end.Damaged)
		_, err := c.updateJob(id, func(j *store.Job) error {
			j.Damage = msgAskedAgain
			return nil
		})
		if err != nil {
			return err
		}
	}
	if job.file, err = chunks.Create(fs, c.files.Path(id, jobdir.FileChunks), &c.chunkBuffers); err != nil {
		return err
	}
	job.chunks = c.scheduler.NewJob(dispatch.JobConfig{Record: job.record, File: job.file, Log: job.log,
		Progress: job.progress, Fail: job.fail})
	job.progress.Begin(time.Now())
	return wholefile.SyncDir(fs, c.files.Path(id))
}

func (job *runningJob) replay(g *jobfiles.Group) error {
	for row, rec := range g.Answers() {
		if err := results.CheckRecord(job.record, row, rec); err != nil {
			return err
		}
		if rec.Kind() == jobfiles.Final {
			job.progress.Replay(row, rec.Reason())
		}
	}
	return g.Deferred(func(row uint32, d jobfiles.Deferral) error {
		if int64(row) >= job.record.Rows {
			return fmt.Errorf("rows log: row %d of %d: %w", row, job.record.Rows, jobfiles.ErrDamaged)
		}
		job.deferred.Put(row, d)
		return nil
	})
}

// work splits, sends and collects until no row is left to probe or ctx ends. All its goroutines have ended when it
// returns.
func (job *runningJob) work() error {
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(job.ctx)
	job.logStarted = true
	job.log.Start()
	toSplit := split.Job{
		Record: job.record, Upload: job.upload, Dialect: &job.dialect, Log: job.log, File: job.file,
		Progress: job.progress, Deferred: job.deferred, Chunks: job.chunks,
	}
	job.deferred = nil
	all.Go(func() {
		if err := pipeline.Contain(func() error { return job.c.splitter.Split(ctx, toSplit) }); err != nil &&
			ctx.Err() == nil {
			job.fail(fmt.Errorf("split: %w", err))
		}
	})
	job.chunks.Start(ctx)
	var err error
	select {
	case <-job.chunks.Finished():
	case err = <-job.failed:
	case <-ctx.Done():
	}
	job.chunks.Stop()
	stop()
	job.chunks.Wait()
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

const msgUncounted = "duplicates that are done cannot be counted: the job shows the last count" // in the log

// doneDuplicates counts again if the last count is old.
func (job *runningJob) doneDuplicates(now time.Time, oldest time.Duration) int64 {
	done, err := job.duplicates.Done(now, oldest, func() (int64, error) {
		return job.c.files.CountDuplicates(job.record, job.progress.Answered)
	})
	if err != nil {
		job.c.log.Error(msgUncounted, "job", job.record.ID, "error", err)
	}
	return done
}
