package coordinator

import (
	"fmt"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/jobdir"
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

// openRowsLog opens the log of the job's rows and reads which rows are answered and which were deferred.
func (job *runningJob) openRowsLog() error {
	files := job.c.files
	if err := files.MigrateLog(job.record.ID); err != nil {
		return err
	}
	log, end, err := jobfiles.OpenRows(files.FS, files.Path(job.record.ID, jobdir.FileRows), job.c.flushAfter, job.replay)
	if err != nil {
		return err
	}
	job.log = log
	return job.c.recordDamage(job.record.ID, end)
}

// replay applies a group of the log.
func (job *runningJob) replay(g *jobfiles.Group) error {
	for row, rec := range g.Answers() {
		if err := results.CheckRecord(job.record, row, rec); err != nil {
			return err
		}
		if rec.Kind() == jobfiles.Final && job.answered.Add(row) {
			job.progress.count(rec.Reason())
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

// recordDamage logs damaged groups of a log and records them in the job.
func (c *Coordinator) recordDamage(job string, end jobfiles.LogEnd) error {
	if end.Damaged == 0 {
		return nil
	}
	c.metrics.damaged.Add(int64(end.Damaged))
	c.log.Error("a part of the log of a job's rows is damaged: its rows are asked again", "job", job, "groups", end.Damaged)
	_, err := c.updateJob(job, func(j *store.Job) error {
		j.Damage = msgAskedAgain
		return nil
	})
	return err
}

// logRow returns the log entry of an answered row, with its score at now. The flags are the row's own, not those of a cache.
func logRow(a *chunks.Row, k jobfiles.Kind, v *engine.Verdict, now time.Time) jobfiles.Row {
	v.Flags = a.Flags
	setVerifiedAt(v, now)
	v.Score = engine.Score(v, now)
	r := jobfiles.Row{Number: a.Number, Kind: k, Verdict: v, Suggestion: a.Suggestion}
	if a.Route != nil {
		r.MX = a.Route.Mx
	}
	return r
}

// setVerifiedAt sets the time of a verdict if it has none.
func setVerifiedAt(v *engine.Verdict, now time.Time) {
	if v.VerifiedAt.IsZero() {
		v.VerifiedAt = now
	}
}
