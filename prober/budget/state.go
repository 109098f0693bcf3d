package budget

import "time"

// State names what a queue does, for people, and until when; busy says that it has work.
func (p *Persisted) State(delay *Delay, busy bool, now time.Time) (state string, until time.Time) {
	_, d := p.Room(&Conn{}, ShortJob, now)
	switch {
	case now.Before(p.QuarantinedUntil):
		return "quarantined", p.QuarantinedUntil
	case now.Before(delay.SendAt):
		return "paused", delay.SendAt
	case now.Before(p.HalvedUntil):
		return "slowed", p.HalvedUntil
	case d.Denied && !d.Lease:
		return "exhausted", d.Until
	case now.Before(delay.ConnectAt) && busy:
		return "waiting", delay.ConnectAt
	case busy:
		return "busy", time.Time{}
	}
	return "idle", time.Time{}
}
