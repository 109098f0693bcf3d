package coordinator

import (
	"cmp"
	"time"

	"probity/coordinator/dispatch"
	"probity/coordinator/progress"
	"probity/engine"
	"probity/store"
)

// Snapshot is a job's record with its current progress.
type Snapshot struct {
	store.Job
	Answered  int64                   // distinct addresses with a verdict
	Processed int64                   // finished rows; a lower bound
	ByStatus  map[engine.Status]int64 // distinct addresses while the job runs, rows once it is finished
	ByReason  map[string]int64        // the same
	dispatch.Forecast
}

// Snapshot returns the current state of a job.
func (c *Coordinator) Snapshot(id string) (Snapshot, error) {
	j, err := c.cfg.Store.Job(id)
	if err != nil {
		return Snapshot{}, err
	}
	if j.State.Finished() && j.Counts != nil {
		return FinishedSnapshot(j), nil
	}
	s := Snapshot{Job: *j, ByStatus: map[engine.Status]int64{}, ByReason: map[string]int64{}}
	c.mu.Lock()
	r := c.runners[id]
	if r == nil {
		c.mu.Unlock()
		return s, nil
	}
	job, counts, duplicates := r.running, r.lastCounts, r.lastDuplicates
	s.Error = cmp.Or(r.failures.problem, s.Error)
	c.mu.Unlock()
	if job != nil {
		now := time.Now()
		counts = job.progress.Counts()
		s.setCounts(&counts)
		s.Processed = s.Answered + job.doneDuplicates(now, progress.RecountEvery) + j.Blank
		if s.Answered == j.Unique {
			s.Processed = j.Rows
		}
		receivers := job.outlook.read(job, now)
		deadline, _ := job.ctx.Deadline()
		s.Forecast = job.chunks.Forecast(now, windowsEnd(receivers, j.Unique-s.Answered), deadline)
		s.Waiting = named(s.Waiting, job, receivers, now)
		return s, nil
	}
	// The job is paused, or its result is being written: it shows the last counts.
	s.setCounts(&counts)
	if s.Answered > 0 {
		s.Processed = s.Answered + duplicates + s.Blank
	}
	if s.State == store.JobFinalizing && !s.Cancelled {
		s.Processed = s.Rows
	}
	return s, nil
}

// FinishedSnapshot makes the snapshot of a finished job from its record alone.
func FinishedSnapshot(j *store.Job) Snapshot {
	s := Snapshot{Job: *j, Answered: j.Unique, Processed: j.Rows, ByStatus: map[engine.Status]int64{},
		ByReason: j.Reasons}
	done := -j.Reasons[engine.ReasonCancelled.String()]
	for i := engine.Unknown; i <= engine.Invalid; i++ {
		s.ByStatus[i] = j.Counts[i.String()]
		done += s.ByStatus[i]
	}
	if took := j.FinishedAt.Sub(j.StartedAt).Seconds(); took > 0 && !j.StartedAt.IsZero() {
		s.Rate = float64(done) / took
	}
	return s
}

func (s *Snapshot) setCounts(t *progress.Counts) {
	s.Answered = t.Answered()
	for i, n := range t {
		r := engine.Reason(i)
		s.ByStatus[r.Bucket()] += n
		if n > 0 && r != engine.ReasonNone {
			s.ByReason[r.String()] = n
		}
	}
}
