package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// stepFailures are the failures of a job's steps in a row without progress. A step that is tried again opens the job's files anew and reads
// what is on the disk, as the next start would.
type stepFailures struct {
	since   time.Time       // the first of them
	count   int             // how many there are
	durable durableProgress // by the job at the last of them
	wait    time.Duration   // before the next try
	problem string          // what the job's record says of it, guarded by Coordinator.mu; not in the store, as its disk may be the full one
}

// durableProgress is how far a job has come on the disk.
type durableProgress struct {
	state store.JobState
	rows  int64 // answered, and these answers are in the log
}

// add counts a failure. Progress since the one before begins the count anew.
func (s *stepFailures) add(now time.Time, r durableProgress) {
	if s.count == 0 || r.state != s.durable.state || r.rows > s.durable.rows {
		s.since, s.count, s.wait = now, 0, 0
	}
	s.count++
	s.durable = r
}

// isFinal reports that nothing has helped for long enough.
func (s *stepFailures) isFinal(now time.Time) bool {
	return now.Sub(s.since) >= retryFor && s.count >= minFailures
}

// The waits before a step is tried again double from the first to the longest.
const (
	minRetryWait = 100 * time.Millisecond
	maxRetryWait = time.Minute
	retryFor     = time.Hour // a job whose steps fail for so long without progress fails; but not for a full disk, where room may be made

	// A job that waits long for its receivers makes no progress meanwhile: two failures hours apart are not yet a disk that fails for hours.
	minFailures = 3
)

// What a job says that fails or waits.
const (
	msgDamaged        = "a file of the job is damaged; upload the list again"
	msgBug            = "a fault of the program ended the job; tell its maintainers what the log says, and upload the list again"
	msgGivenUp        = "the server's disk failed for an hour; upload the list again"
	msgDiskFull       = "the server's disk is full: the job goes on by itself when there is room"
	msgNewerVersion   = "a newer program wrote the job's files: it goes on when that runs again"
	msgAnswersLost    = "a part of the job's log was damaged on the server's disk: rows whose answers were in it have none"
	msgResultsDamaged = "a file of the job is damaged on the server's disk: results are not given, or only as the stored file; upload the list again"
	msgAskedAgain     = "a part of the job's log was damaged on the server's disk: its rows were asked again"
	msgDiskFailing    = "the server's disk fails: the job is tried again each minute, for an hour"
)

// handleFailure is what becomes of a job whose step failed: it fails if its files are damaged or nothing helped for an hour, else it keeps its
// state and is tried again after a wait, or when it is notified.
func (r *jobRunner) handleFailure(ctx context.Context, cause error) error {
	if errors.Is(cause, store.ErrBroken) {
		return cause
	}
	now := time.Now()
	r.failures.add(now, r.durable)
	message, kind := msgDiskFailing, failureRetried
	switch {
	case errors.Is(cause, errPanicked):
		return r.giveUp(ctx, cause, msgBug)
	case errors.Is(cause, errDamaged), errors.Is(cause, fs.ErrNotExist):
		return r.giveUp(ctx, cause, msgDamaged)
	case vfs.IsNoSpaceError(cause):
		message, kind = msgDiskFull, failureDiskFull
	case errors.Is(cause, jobfiles.ErrVersion):
		message = msgNewerVersion
	case r.failures.isFinal(now):
		return r.giveUp(ctx, cause, msgGivenUp)
	}
	r.c.metrics.stepFailures[kind].Add(1)
	r.waitForRetry(ctx, cause, message)
	return nil
}

// giveUp fails the job.
func (r *jobRunner) giveUp(ctx context.Context, cause error, message string) error {
	r.c.log.Error("job failed", "job", r.id, "error", cause)
	r.c.metrics.stepFailures[failureFinal].Add(1)
	err := r.c.failJob(r.id, message)
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	if err != nil {
		r.waitForRetry(ctx, err, message)
	}
	return nil
}

// waitForRetry waits before the next try.
func (r *jobRunner) waitForRetry(ctx context.Context, cause error, message string) {
	s := &r.failures
	s.wait = min(max(2*s.wait, minRetryWait), maxRetryWait)
	r.c.log.Error("a step of a job failed: it is tried again", "job", r.id, "in", s.wait, "error", cause)
	r.setProblem(message)
	t := time.NewTimer(s.wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// clearFailures forgets setbacks after a step that did not fail.
func (r *jobRunner) clearFailures() {
	r.failures.count = 0
	r.setProblem("")
}

func (r *jobRunner) setProblem(problem string) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.failures.problem = problem
}

// problemOf is why a job does not get on, empty if it does.
func (c *Coordinator) problemOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.failures.problem
	}
	return ""
}
