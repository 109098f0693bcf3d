package coordinator

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/store"
)

// meters are what the coordinator counts of itself since it started. They are read by Collect.
type meters struct {
	rows    [4]atomic.Int64 // distinct addresses of jobs answered, by status
	singles [4]atomic.Int64 // single requests answered, by status
}

var (
	jobsDesc    = prometheus.NewDesc("probity_jobs", "Jobs in the store, by state.", []string{"state"}, nil)
	rowsDesc    = prometheus.NewDesc("probity_job_rows_total", "Distinct addresses of jobs that were answered, by status.", []string{"status"}, nil)
	singlesDesc = prometheus.NewDesc("probity_singles_total", "Single verifications that were answered, by status.", []string{"status"}, nil)
	retryDesc   = prometheus.NewDesc("probity_job_rows_waiting", "Rows of running jobs that wait for a retry or for budget.", nil, nil)
)

// jobStates are all states that a job can have, so that each has its line even with no job in it.
var jobStates = [...]store.JobState{store.JobQueued, store.JobRunning, store.JobPaused, store.JobCancelling, store.JobFinalizing,
	store.JobCompleted, store.JobCancelled, store.JobFailed, store.JobExpired}

// Describe and Collect make a Coordinator a prometheus.Collector. No label bears an account, a job, an address or a domain.
func (c *Coordinator) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{jobsDesc, rowsDesc, singlesDesc, retryDesc} {
		out <- d
	}
}

// Collect reads the store's jobs once: it is for scrapes, not for loops.
func (c *Coordinator) Collect(out chan<- prometheus.Metric) {
	states, waiting := map[store.JobState]int{}, int64(0)
	err := c.cfg.Store.AllJobs(func(j *store.Job) error {
		states[j.State]++
		if j.State.Finished() {
			return nil
		}
		s, err := c.Snapshot(j.ID)
		waiting += s.PendingRetry + s.WaitingBudget
		return err
	})
	if err != nil {
		out <- prometheus.NewInvalidMetric(jobsDesc, err)
		return
	}
	for _, s := range jobStates {
		out <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(states[s]), string(s))
	}
	out <- prometheus.MustNewConstMetric(retryDesc, prometheus.GaugeValue, float64(waiting))
	for s := engine.Unknown; s <= engine.Invalid; s++ {
		out <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(c.meters.rows[s].Load()), s.String())
		out <- prometheus.MustNewConstMetric(singlesDesc, prometheus.CounterValue, float64(c.meters.singles[s].Load()), s.String())
	}
}
