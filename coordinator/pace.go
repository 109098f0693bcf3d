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

// eta is when so many rows more are answered. What a budget has allowed at once is the pace until it allows more.
func (p *classPace) eta(rows int64, until, now time.Time) time.Duration {
	if p == nil || p.answered == 0 {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	return time.Duration(float64(until.Sub(p.began)) / float64(p.answered) * float64(rows))
}
