package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
	"probity/internal/pipeline"
	"probity/store"
)

// stepFailures counts a job's consecutive failed steps without progress. A step that is tried again reopens the job's
// files, as the next start would.
type stepFailures struct {
	since   time.Time       // of the first failure
	count   int             // of failures
	durable durableProgress // of the job at the last failure
	wait    time.Duration   // before the next try
	// shown as the job's error; guarded by Coordinator.mu; not stored: the store's disk may be full
	problem string
}

// durableProgress is a job's progress on the disk.
type durableProgress struct {
	state store.JobState
	rows  int64 // with answers in the log
}

// add counts a failure. Progress since the previous one resets the count.
func (s *stepFailures) add(now time.Time, r durableProgress) {
	if s.count == 0 || r.state != s.durable.state || r.rows > s.durable.rows {
		s.since, s.count, s.wait = now, 0, 0
	}
	s.count++
	s.durable = r
}

// isFinal reports whether the job has failed for retryFor without progress.
func (s *stepFailures) isFinal(now time.Time) bool {
	return now.Sub(s.since) >= retryFor && s.count >= minFailures
}

// The waits before a step is tried again double from the first to the longest.
const (
	minRetryWait = 100 * time.Millisecond
	maxRetryWait = time.Minute
	retryFor     = time.Hour // then a job without progress fails; on a full disk it never does

	// A job that waits long for its receivers makes no progress either: two failures hours apart do not mean a failing
	// disk.
	minFailures = 3
)

// The messages of a job that fails or waits.
const (
	msgDamaged      = "a file of the job is damaged; upload the list again"
	msgBug          = "a fault of the program ended the job; tell its maintainers what the log says, and upload the list again"
	msgGivenUp      = "the server's disk failed for an hour; upload the list again"
	msgDiskFull     = "the server's disk is full: the job goes on by itself when there is room"
	msgNewerVersion = "a newer program wrote the job's files: it goes on when that runs again"
	msgAnswersLost  = "a part of the job's log was damaged on the server's disk: rows whose answers were in it have none"
	msgAskedAgain   = "a part of the job's log was damaged on the server's disk: its rows were asked again"
	msgDiskFailing  = "the server's disk fails: the job is tried again each minute, for an hour"
)

// handleFailure handles a failed step. The job fails on damaged files, on a panic, or after an hour without progress.
// Else it keeps its state, and the step is tried again after a wait or a notification.
func (r *jobRunner) handleFailure(ctx context.Context, cause error) error {
	if errors.Is(cause, store.ErrBroken) {
		return cause
	}
	now := time.Now()
	r.failures.add(now, r.durable)
	message, kind := msgDiskFailing, failureRetried
	switch {
	case errors.Is(cause, pipeline.ErrPanic):
		return r.giveUp(ctx, cause, msgBug)
	case errors.Is(cause, jobfiles.ErrDamaged), errors.Is(cause, fs.ErrNotExist):
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

// giveUp fails the job, without a charge.
func (r *jobRunner) giveUp(ctx context.Context, cause error, message string) error {
	r.c.log.Error("job failed", "job", r.id, "error", cause)
	r.c.metrics.stepFailures[failureFinal].Add(1)
	j, err := r.c.Job(r.id)
	if err == nil {
		done := *j
		done.State, done.Error = store.JobFailed, message
		setFinishedNow(&done)
		err = r.c.commitFinished(j, &done)
	}
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	if err != nil {
		r.waitForRetry(ctx, err, message)
	}
	return nil
}

// waitForRetry waits before the next try, or until the runner is notified.
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

func (r *jobRunner) setProblem(problem string) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.failures.problem = problem
}
