package dispatch

import "time"

// classRate is the progress of a job's class, from which its ETA is estimated. The scheduler's mutex guards it.
type classRate struct {
	since    time.Time
	answered int
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

// expectedWeight is the weight, in rows, of the rate expected from the budgets: with few answered rows the measured
// rate says little.
const expectedWeight = 50

// eta estimates how long rows more rows take. While a class waits for a budget, the rate counts up to until, the end of
// that wait; zero: it does not wait.
func (cr *classRate) eta(rows int64, until, now time.Time, expected float64) time.Duration {
	if cr == nil || cr.answered == 0 {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	took, answered := float64(until.Sub(cr.since)), float64(cr.answered)
	if expected > 0 {
		took, answered = took+expectedWeight/expected*float64(time.Hour), answered+expectedWeight
	}
	return time.Duration(took / answered * float64(rows))
}
