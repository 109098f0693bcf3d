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

// setbacks are the failures of a job's steps in a row without progress. A step that is tried again opens the job's files anew and reads
// what is on the disk, as the next start would.
type setbacks struct {
	since   time.Time     // the first of them
	count   int           // how many there are
	reached reached       // by the job at the last of them
	wait    time.Duration // before the next try
	trouble string        // what the job's record says of it, guarded by Coordinator.mu; not in the store, as its disk may be the full one
}

// reached is how far a job has come on the disk.
type reached struct {
	state store.JobState
	rows  int64 // answered, and these answers are in the log
}

// add counts a failure. Progress since the one before begins the count anew.
func (s *setbacks) add(now time.Time, r reached) {
	if s.count == 0 || r.state != s.reached.state || r.rows > s.reached.rows {
		s.since, s.count, s.wait = now, 0, 0
	}
	s.count++
	s.reached = r
}

// over reports that nothing has helped for long enough.
func (s *setbacks) over(now time.Time) bool {
	return now.Sub(s.since) >= tryFor && s.count >= fewestTries
}

// The waits before a step is tried again double from the first to the longest.
const (
	firstTry = 100 * time.Millisecond
	lastTry  = time.Minute
	tryFor   = time.Hour // a job whose steps fail for so long without progress fails; but not for a full disk, where room may be made

	// A job that waits long for its receivers makes no progress meanwhile: two failures hours apart are not yet a disk that fails for hours.
	fewestTries = 3
)

// What a job says that fails or waits.
const (
	saysDamaged    = "a file of the job is damaged; upload the list again"
	saysBug        = "a fault of the program ended the job; tell its maintainers what the log says, and upload the list again"
	saysGivenUp    = "the server's disk failed for an hour; upload the list again"
	saysFull       = "the server's disk is full: the job goes on by itself when there is room"
	saysNewer      = "a newer program wrote the job's files: it goes on when that runs again"
	saysLost       = "a part of the job's log was damaged on the server's disk: rows whose answers were in it have none"
	saysRefused    = "a file of the job is damaged on the server's disk: results are not given, or only as the stored file; upload the list again"
	saysAskedAgain = "a part of the job's log was damaged on the server's disk: its rows were asked again"
	saysFailing    = "the server's disk fails: the job is tried again each minute, for an hour"
)

// setback is what becomes of a job whose step failed: it fails if its files are damaged or nothing helped for an hour, else it keeps its
// state and is tried again after a wait, or when it is rung for.
func (r *runner) setback(ctx context.Context, cause error) error {
	if errors.Is(cause, store.ErrBroken) {
		return cause
	}
	now := time.Now()
	r.setbacks.add(now, r.reached)
	says, kind := saysFailing, setbackError
	switch {
	case errors.Is(cause, errPanicked):
		return r.giveUp(ctx, cause, saysBug)
	case errors.Is(cause, errDamaged), errors.Is(cause, fs.ErrNotExist):
		return r.giveUp(ctx, cause, saysDamaged)
	case vfs.IsNoSpaceError(cause):
		says, kind = saysFull, setbackFull
	case errors.Is(cause, jobfiles.ErrVersion):
		says = saysNewer
	case r.setbacks.over(now):
		return r.giveUp(ctx, cause, saysGivenUp)
	}
	r.c.meters.setbacks[kind].Add(1)
	r.waitOut(ctx, cause, says)
	return nil
}

// giveUp fails the job.
func (r *runner) giveUp(ctx context.Context, cause error, says string) error {
	r.c.log.Error("job failed", "job", r.id, "error", cause)
	r.c.meters.setbacks[setbackFailed].Add(1)
	err := r.c.failJob(r.id, says)
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	if err != nil {
		r.waitOut(ctx, err, says)
	}
	return nil
}

// waitOut waits before the next try.
func (r *runner) waitOut(ctx context.Context, cause error, says string) {
	s := &r.setbacks
	s.wait = min(max(2*s.wait, firstTry), lastTry)
	r.c.log.Error("a step of a job failed: it is tried again", "job", r.id, "in", s.wait, "error", cause)
	r.tell(says)
	t := time.NewTimer(s.wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.bell:
	case <-ctx.Done():
	}
}

// wellAgain forgets setbacks after a step that did not fail.
func (r *runner) wellAgain() {
	r.setbacks.count = 0
	r.tell("")
}

func (r *runner) tell(trouble string) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.setbacks.trouble = trouble
}

// troubleOf is why a job does not get on, empty if it does.
func (c *Coordinator) troubleOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.setbacks.trouble
	}
	return ""
}
