package coordinator

import "time"

// classRate is how a class of a job has got on, for people. The scheduler's mutex guards it.
type classRate struct {
	since    time.Time
	answered int
}

// rateOf finds the pace of a class, which begins with its first chunk. The scheduler is locked.
func (job *runningJob) rateOf(class string, now time.Time) *classRate {
	p := job.rates[class]
	if p == nil {
		p = &classRate{since: now}
		job.rates[class] = p
	}
	return p
}

// expectedWeight is how many rows the pace that budgets let expect counts for: a route of which few rows were answered has no pace of
// its own that would tell much.
const expectedWeight = 50

// expectedRate is how many rows of a class an hour's budgets allow where the usual share is refused; 0: no such budget binds.
func (c *Coordinator) expectedRate(class string) float64 {
	t := c.table.Load()
	p, sources := t.Provider(class), 1
	if p == nil {
		p = t.Unknown
	} else if s, ok := c.cfg.Prober.(sourceCounter); ok {
		sources = p.Sources(s.Sources())
	}
	return float64(p.Limits.RefusalsPerHour*sources) / DefaultRefused
}

// eta is when so many rows more are answered. What a budget has allowed at once is the pace until it allows more.
func (p *classRate) eta(rows int64, until, now time.Time, expected float64) time.Duration {
	if p == nil || p.answered == 0 {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	took, answered := float64(until.Sub(p.since)), float64(p.answered)
	if expected > 0 {
		took, answered = took+expectedWeight/expected*float64(time.Hour), answered+expectedWeight
	}
	return time.Duration(took / answered * float64(rows))
}
