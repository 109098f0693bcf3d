package readyqueue

import (
	"time"

	"probity/prober/budget"
	"probity/prober/hostqueue"
)

// fillTransaction fills the session's next transaction and reserves its budgets: single calls first, then decoys, then
// jobs. If there is nothing to send, the denial says why; no denial means that there is no work. More transactions
// follow in the same group: a receiver that takes one recipient or one domain a transaction would otherwise cost a
// round trip for each.
func (s *session) fillTransaction(l *locked, now time.Time) budget.Denial {
	s.group.Reset()
	m, addrLimit := s.host, s.addressLimit
	if now.Before(l.delay.SendAt) {
		return budget.Denial{Denied: true, Until: l.delay.SendAt}
	}
	if l.waiting.Queued[budget.ShortJob] > 0 {
		l.budget.Pacing.RecordShortJob(now)
	}
	if addrLimit != nil {
		addrLimit.Lock() // other queues use it too: held until the room is reserved
		defer addrLimit.Unlock()
	}
	rooms, denials := s.roomByPriority(l, now)
	for fill := rooms; ; {
		n, longJobs := m.Fill(&s.group, hostqueue.Fill{Rooms: fill,
			TargetsLeft: l.targetsLeft(s), On: s.shown,
			OneDomain: l.Provider.OneDomain || s.oneDomain,
			First:     s.used.Transactions == 0, ControlOnly: s.phase != open, Keyer: s.keyer, Now: now})
		if n == 0 {
			break
		}
		l.budget.Reserve(&s.used, n, longJobs)
		if addrLimit != nil {
			addrLimit.Reserve(&s.addressUsed, n, longJobs)
		}
		l.env.Metrics.Transactions.Inc()
		if !s.progress || s.group.Control || m.MaxRecipients > 0 || m.OneAtATime || !s.conn.Extensions().Pipelining {
			break // the connection has not answered yet, or the host has shown that it takes only so much
		}
		more := l.latency.PipelineLimit(budget.MaxTransaction) - len(s.group.Recipients)
		if more <= 0 {
			break
		}
		fill, _ = s.roomByPriority(l, now)
		for priority := range fill {
			fill[priority] = min(fill[priority], more)
		}
	}
	if len(s.group.Recipients) > 0 {
		m.RecordSent()
		began := now
		if !s.progress {
			began = s.began
		}
		s.group.MarkSent(began)
		return budget.Denial{}
	}
	var d budget.Denial // why what waits has no room
	switch waiting := m.WaitingCount(); {
	case rooms[budget.Single] == 0 && (waiting > 0 || m.NeedsControl(s.shown)):
		d = denials[budget.Single]
	case waiting > 0 && l.targetsLeft(s) == 0: // the connection is used up
	case rooms[budget.ShortJob] == 0 && waiting > m.Queued(budget.Single):
		d = denials[budget.ShortJob]
	case rooms[budget.LongJob] == 0 && waiting > m.Queued(budget.Single)+m.Queued(budget.ShortJob):
		d = denials[budget.LongJob]
	default:
		needsNew := m.HasRetryFirst() || waiting == 0 && m.NeedsControl(s.shown) // a connection
		if needsNew && s.used.Transactions > 0 {
			s.phase.close()
		}
		return budget.Denial{}
	}
	if !d.Denied { // the connection is used up: waiting lifts only a denial of a budget
		s.phase.close()
	}
	d.Denied = true
	return d
}

// targetsLeft returns how many more targets and decoys a connection may have.
func (l *locked) targetsLeft(s *session) int {
	return s.host.TargetsLeft(s.shown, s.used.Sent, l.budget.RecipientsLeft(&s.used), l.budget.RefusalsLeft(&s.used))
}

// roomByPriority is room for each priority, and why there is none. The address limit, which learns of short jobs here,
// is locked too.
func (s *session) roomByPriority(l *locked, now time.Time) (rooms [budget.NumPriorities]int,
	denials [budget.NumPriorities]budget.Denial) {
	rooms[budget.Single], denials[budget.Single] = s.room(l, budget.Single, now)
	rooms[budget.LongJob], denials[budget.LongJob] = s.room(l, budget.LongJob, now)
	rooms[budget.ShortJob], denials[budget.ShortJob] = rooms[budget.LongJob], denials[budget.LongJob]
	shortDiffer := l.budget.JobPrioritiesDiffer(now) // short jobs may have more than long ones
	if limit := s.addressLimit; limit != nil {
		if l.waiting.Queued[budget.ShortJob] > 0 {
			limit.RecordDemand(budget.ShortJob, l.budget.Pacing.Until(), now)
		}
		shortDiffer = shortDiffer || limit.JobPrioritiesDiffer(now)
	}
	if shortDiffer {
		rooms[budget.ShortJob], denials[budget.ShortJob] = s.room(l, budget.ShortJob, now)
	}
	return rooms, denials
}

// room returns how many recipients may be sent now, by both budgets, the server's own limits and what was learnt of it.
func (s *session) room(l *locked, priority budget.Priority, now time.Time) (int, budget.Denial) {
	n, d := l.budget.Room(&s.used, priority, now)
	if addrLimit := s.addressLimit; addrLimit != nil && n > 0 {
		m, dd := addrLimit.Room(&s.addressUsed, priority, now)
		n = min(n, m)
		if m == 0 {
			d = dd
			s.addressLease = s.addressLease || dd.Lease
		}
	}
	if g := s.host.MaxRecipients; g > 0 {
		n = min(n, g)
	}
	if l.budget.Limits.Connections == 0 {
		n = min(n, l.latency.TransactionLimit(budget.MaxTransaction))
	}
	if s.maxRcpt > 0 {
		n = min(n, s.maxRcpt)
	}
	if s.maxMail > 0 && s.used.Transactions >= s.maxMail {
		n = 0
	}
	return n, d
}
