package dispatch

import "time"

// classRate is the progress of a job's class, from which its ETA is estimated while no budget limits it. The
// scheduler's mutex guards it.
type classRate struct {
	since    time.Time
	answered int
	waited   bool // rows of it have waited for a budget: its windows say more than its rate
}

// rateOf returns the rate of a class, which begins with its first chunk. The scheduler is locked.
func (job *Job) rateOf(class string, now time.Time) *classRate {
	cr := job.rates[class]
	if cr == nil {
		cr = &classRate{since: now}
		job.rates[class] = cr
	}
	return cr
}

// eta estimates how long rows more rows take; some were answered.
func (cr *classRate) eta(rows int64, now time.Time) time.Duration {
	return time.Duration(float64(now.Sub(cr.since)) / float64(cr.answered) * float64(rows))
}
