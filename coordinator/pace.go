package coordinator

import "time"

// classPace is how a class of a job has got on, for people. The desk's mutex guards it.
type classPace struct {
	began    time.Time
	answered int
}

// paceOf finds the pace of a class, which begins with its first chunk. The desk is locked.
func (l *live) paceOf(class string, now time.Time) *classPace {
	p := l.paces[class]
	if p == nil {
		p = &classPace{began: now}
		l.paces[class] = p
	}
	return p
}

// expectedRows is how many rows the pace that budgets let expect counts for: a route of which few rows were answered has no pace of
// its own that would tell much.
const expectedRows = 50

// expectedPace is how many rows of a class an hour's budgets allow where the usual share is refused; 0: no such budget binds.
func (c *Coordinator) expectedPace(class string) float64 {
	t := c.table.Load()
	p, sources := t.Provider(class), 1
	if p == nil {
		p = t.Unknown
	} else if s, ok := c.cfg.Prober.(sourced); ok {
		sources = p.Sources(s.Sources())
	}
	return float64(p.Limits.RefusalsPerHour*sources) / DefaultRefused
}

// eta is when so many rows more are answered. What a budget has allowed at once is the pace until it allows more.
func (p *classPace) eta(rows int64, until, now time.Time, expected float64) time.Duration {
	if p == nil || p.answered == 0 {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	took, answered := float64(until.Sub(p.began)), float64(p.answered)
	if expected > 0 {
		took, answered = took+expectedRows/expected*float64(time.Hour), answered+expectedRows
	}
	return time.Duration(took / answered * float64(rows))
}
