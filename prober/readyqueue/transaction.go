package readyqueue

import (
	"time"

	"probity/prober/budget"
	"probity/prober/hostqueue"
)

// fillTransaction fills the session's next transaction and reserves its budgets: single calls first, then decoys, then jobs. If
// there is nothing to send, the denial says why; no denial means that there is no work. More transactions follow in the same
// group: a receiver that takes one recipient or one domain a transaction would otherwise cost a round trip for each.
func (q *Queue) fillTransaction(s *session, now time.Time) budget.Denial {
	s.group.Reset()
	if now.Before(q.hold.SendAt) && !(s.lastTransaction && q.hold.Tarpit) {
		return budget.Denial{Denied: true, Until: q.hold.SendAt}
	}
	if q.waiting.Queued[budget.ShortJob] > 0 {
		q.budget.Pacing.RecordShortJob(now)
	}
	hq := s.hostQueue
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Lock() // other queues use it too: held until the room is reserved
		defer addrLimit.Unlock()
	}
	rooms, denials := s.roomByPriority(now)
	if q.addTransaction(s, rooms, now) {
		for more := s.pipelineRoom(); more > 0; more = s.pipelineRoom() {
			rooms, _ := s.roomByPriority(now)
			for class := range rooms {
				rooms[class] = min(rooms[class], more)
			}
			if !q.addTransaction(s, rooms, now) {
				break
			}
		}
		hq.Sent(&s.group)
		s.closing = s.closing || s.lastTransaction
		return budget.Denial{}
	}
	var d budget.Denial // why what waits has no room
	switch waiting := hq.WaitingCount(); {
	case s.lastTransaction && !denials[budget.LongJob].Lease:
		s.closing = true
		return budget.Denial{}
	case s.lastTransaction:
		return denials[budget.LongJob]
	case rooms[budget.Single] == 0 && waiting > 0:
		d = denials[budget.Single]
	case rooms[budget.ShortJob] == 0 && waiting > hq.Queued(budget.Single):
		d = denials[budget.ShortJob]
	case rooms[budget.LongJob] == 0 && waiting > hq.Queued(budget.Single)+hq.Queued(budget.ShortJob):
		d = denials[budget.LongJob]
	default:
		s.closing = s.closing || hq.HasRetryFirst() && s.used.Transactions > 0 // what is left needs a new connection
		return budget.Denial{}
	}
	s.closing = s.closing || !d.Denied // the connection is used up: waiting lifts only a denial of a budget
	d.Denied = true
	return d
}

// addTransaction adds a transaction of at most so many recipients to the group, and reserves its budgets. It returns false if
// it would be empty.
func (q *Queue) addTransaction(s *session, rooms [budget.NumClasses]int, now time.Time) bool {
	hq := s.hostQueue
	n, longJobs := hq.Fill(&s.group, hostqueue.Fill{Rooms: rooms, OneDomain: q.Provider.OneDomain || s.oneDomain || hq.oneDomain, First: s.used.Transactions == 0,
		DecoysOnly: s.lastTransaction, Keyer: s.keyer, Now: now})
	if n == 0 {
		return false
	}
	q.budget.Reserve(&s.used, n, longJobs)
	if addrLimit := s.addressLimit; addrLimit != nil { // its mutex is held too
		addrLimit.Reserve(&s.addressUsed, n, longJobs)
	}
	q.env.Metrics.Transactions.Inc()
	return true
}

// pipelineRoom is how many more recipients the group may hold, in another transaction: none if the connection has not answered
// yet, or the host has shown that it takes only so much.
func (s *session) pipelineRoom() int {
	if !s.progress || s.hostQueue.maxRecipients > 0 || s.hostQueue.oneAtATime || !s.conn.Extensions().Pipelining {
		return 0
	}
	return s.queue.latency.PipelineLimit(budget.MaxTransaction) - len(s.group.Recipients)
}

// roomByPriority is room for each priority, and why there is none. The address limit's mutex is held too.
func (s *session) roomByPriority(now time.Time) (rooms [budget.NumClasses]int, denials [budget.NumClasses]budget.Denial) {
	rooms[budget.Single], denials[budget.Single] = s.room(budget.Single, now)
	rooms[budget.LongJob], denials[budget.LongJob] = s.room(budget.LongJob, now)
	if rooms[budget.ShortJob], denials[budget.ShortJob] = rooms[budget.LongJob], denials[budget.LongJob]; s.jobClassesDiffer(now) {
		rooms[budget.ShortJob], denials[budget.ShortJob] = s.room(budget.ShortJob, now)
	}
	return rooms, denials
}

// jobClassesDiffer reports that short jobs may have more than long ones, on the route or at its address limit, which learns of
// short jobs here.
func (s *session) jobClassesDiffer(now time.Time) bool {
	q, addrLimit := s.queue, s.addressLimit
	if addrLimit == nil {
		return q.budget.JobClassesDiffer(now)
	}
	if q.waiting.Queued[budget.ShortJob] > 0 {
		addrLimit.NoteDemand(budget.ShortJob, q.budget.Pacing.Until(), now)
	}
	return q.budget.JobClassesDiffer(now) || addrLimit.JobClassesDiffer(now)
}

// room is how many recipients may be sent now, by the queue, the address limit, the server's own limits and what was learnt of
// it.
func (s *session) room(class budget.Class, now time.Time) (int, budget.Denial) {
	n, d := s.queue.budget.Room(&s.used, class, now)
	if addrLimit := s.addressLimit; addrLimit != nil && n > 0 {
		m, dd := addrLimit.Room(&s.addressUsed, class, now)
		if n = min(n, m); m == 0 {
			d = dd
			if dd.Lease {
				s.addressLease = true
			}
		}
	}
	if g := s.hostQueue.maxRecipients; g > 0 {
		n = min(n, g)
	}
	if s.queue.budget.Limits.Connections == 0 {
		n = min(n, s.queue.latency.TransactionLimit(budget.MaxTransaction))
	}
	if s.maxRcpt > 0 {
		n = min(n, s.maxRcpt)
	}
	if s.maxMail > 0 && s.used.Transactions >= s.maxMail {
		n = 0
	}
	return n, d
}
