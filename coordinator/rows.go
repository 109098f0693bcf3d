package coordinator

import (
	"fmt"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

// flushAfter is the sync interval of a job's log. All jobs together sync about as often as one alone: a sync costs the same
// however little it writes, and the probers' caches still have the answers that a crash loses.
func (c *Coordinator) flushAfter() time.Duration {
	return min(jobfiles.FlushAfter*time.Duration(max(1, len(c.runningSlots))), maxFlushAfter)
}

const maxFlushAfter = 10 * jobfiles.FlushAfter // with any number of jobs

func (job *runningJob) replay(g *jobfiles.Group) error {
	for row, rec := range g.Answers() {
		if err := results.CheckRecord(job.record, row, rec); err != nil {
			return err
		}
		if rec.Kind() == jobfiles.Final && job.answered.Add(row) {
			job.progress.counts[rec.Reason()].Add(1)
		}
	}
	return g.Deferred(func(row uint32, d jobfiles.Deferral) error {
		if int64(row) >= job.record.Rows {
			return fmt.Errorf("rows log: row %d of %d: %w", row, job.record.Rows, jobfiles.ErrDamaged)
		}
		job.deferred.put(row, d)
		return nil
	})
}

// setDamage sets what a job shows of damage to its files.
func (c *Coordinator) setDamage(job, what string) error {
	_, err := c.updateJob(job, func(j *store.Job) error {
		j.Damage = what
		return nil
	})
	return err
}

// logRow returns the log entry of an answered row, with its score at now. The flags are the row's own, not those of a cache.
func logRow(a *chunks.Row, k jobfiles.Kind, v *engine.Verdict, now time.Time) jobfiles.Row {
	v.Flags = a.Flags
	if v.VerifiedAt.IsZero() {
		v.VerifiedAt = now
	}
	v.Score = engine.Score(v, now)
	r := jobfiles.Row{Number: a.Number, Kind: k, Verdict: v, Suggestion: a.Suggestion}
	if a.Route != nil {
		r.MX = a.Route.Mx
	}
	return r
}
