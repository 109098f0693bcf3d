package coordinator

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"probity/coordinator/progress"
	"probity/engine"
	"probity/store"
)

// jobMetrics are the coordinator's counters since its start. Collect reads them.
type jobMetrics struct {
	rows    progress.Totals // distinct addresses of jobs answered
	singles [4]atomic.Int64 // single requests answered, by status

	ended           [4]atomic.Int64 // jobs, by endedStates
	stepFailures    [3]atomic.Int64 // failed steps of jobs, by outcome
	retentionErrors atomic.Int64    // failed expiries, removals and ends of erasures
	damaged         atomic.Int64    // unreadable groups of jobs' logs
}

// The outcomes of a failed step.
const (
	failureDiskFull = iota // the job waits for free disk space
	failureRetried         // the step is tried again
	failureFinal           // the job failed
)

var failureNames = [...]string{"disk_full", "retried", "failed"}

var (
	failureDesc = prometheus.NewDesc("probity_job_setbacks_total",
		"Steps of jobs that failed: the disk is full, the step is tried again, or the job failed.", []string{"outcome"},
		nil)
	retentionDesc = prometheus.NewDesc("probity_housekeeping_failures_total",
		"Expiries, removals of files and ends of erasures that failed; each is tried again.", nil, nil)
	damagedDesc = prometheus.NewDesc("probity_job_files_damaged_total",
		"Parts of jobs' files that could not be read: rows of a running job are asked again, results of a finished one are made again or, if that is not possible, not given.", nil, nil)
	endedDesc = prometheus.NewDesc("probity_jobs_finished_total",
		"Jobs that came to a state in which they do no more work, by state.", []string{"state"}, nil)
	jobsDesc = prometheus.NewDesc("probity_jobs", "Jobs that are not finished, by state.", []string{"state"}, nil)
	rowsDesc = prometheus.NewDesc("probity_job_rows_total",
		"Distinct addresses of jobs that were answered, by status.", []string{"status"}, nil)
	singlesDesc = prometheus.NewDesc("probity_singles_total", "Single verifications that were answered, by status.",
		[]string{"status"}, nil)
	retryDesc = prometheus.NewDesc("probity_job_rows_waiting",
		"Rows of running jobs that wait for a retry or for budget.", nil, nil)
)

// All states of a job, so that each state is reported even without a job in it.
var (
	openStates = [...]store.JobState{store.JobReady, store.JobQueued, store.JobRunning, store.JobPaused,
		store.JobCancelling, store.JobFinalizing}
	endedStates = [...]store.JobState{store.JobCompleted, store.JobCancelled, store.JobFailed, store.JobExpired}
)

// Describe and Collect implement prometheus.Collector. Accounts, jobs, addresses and domains are not labels.
func (c *Coordinator) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{jobsDesc, rowsDesc, singlesDesc, retryDesc, failureDesc, retentionDesc,
		damagedDesc, endedDesc} {
		out <- d
	}
}

// Collect reads the records of all unfinished jobs while Run is running: it is for scrapes, not for loops. A job that
// cannot be read is not counted.
func (c *Coordinator) Collect(out chan<- prometheus.Metric) {
	for i, name := range failureNames {
		out <- prometheus.MustNewConstMetric(failureDesc, prometheus.CounterValue,
			float64(c.metrics.stepFailures[i].Load()), name)
	}
	out <- prometheus.MustNewConstMetric(retentionDesc, prometheus.CounterValue,
		float64(c.metrics.retentionErrors.Load()))
	out <- prometheus.MustNewConstMetric(damagedDesc, prometheus.CounterValue, float64(c.metrics.damaged.Load()))
	states, waiting := map[store.JobState]int{}, int64(0)
	c.mu.Lock()
	unfinished := slices.Collect(maps.Keys(c.runners))
	c.mu.Unlock()
	for _, id := range unfinished {
		s, err := c.Snapshot(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			c.log.Error("a job is not in the metrics: it cannot be read", "job", id, "error", err)
			continue
		}
		states[s.State]++
		waiting += s.PendingRetry + s.WaitingBudget
	}
	err := c.cfg.Store.JobsIn(store.StageReady, func(string) error {
		states[store.JobReady]++
		return nil
	})
	if err != nil {
		c.log.Error("jobs that were not started are not in the metrics: they cannot be read", "error", err)
	}
	for _, s := range openStates {
		out <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(states[s]), string(s))
	}
	for i, s := range endedStates {
		out <- prometheus.MustNewConstMetric(endedDesc, prometheus.CounterValue, float64(c.metrics.ended[i].Load()),
			string(s))
	}
	out <- prometheus.MustNewConstMetric(retryDesc, prometheus.GaugeValue, float64(waiting))
	for s := engine.Unknown; s <= engine.Invalid; s++ {
		out <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(c.metrics.rows[s].Load()),
			s.String())
		out <- prometheus.MustNewConstMetric(singlesDesc, prometheus.CounterValue, float64(c.metrics.singles[s].Load()),
			s.String())
	}
}
