package budget

import "time"

// State names what a queue does, for people, and until when; busy says that it has work.
func (p *Persisted) State(hold *Hold, busy bool, now time.Time) (state string, until time.Time) {
	_, d := p.Room(&Conn{}, ShortJob, now)
	switch {
	case now.Before(p.QuarantinedUntil):
		return "quarantined", p.QuarantinedUntil
	case now.Before(hold.SendAt):
		return "paused", hold.SendAt
	case now.Before(p.HalvedUntil):
		return "slowed", p.HalvedUntil
	case d.Denied && !d.Lease:
		return "exhausted", d.Until
	case now.Before(hold.ConnectAt) && busy:
		return "waiting", hold.ConnectAt
	case busy:
		return "busy", time.Time{}
	}
	return "idle", time.Time{}
}
