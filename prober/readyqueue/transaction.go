package readyqueue

import (
	"time"

	"probity/engine/smtp"
	"probity/prober/budget"
)

// recipient is one recipient of a transaction: a target, or the decoy of a domain queue if probe is nil.
type recipient struct {
	probe       *Probe
	domainQueue *domainQueue
	longJob     bool // for a row of a long job
}

// fillTransaction fills the session's next transaction and reserves its budgets: single calls first, then decoys, then jobs. If
// there is nothing to send, the denial says why; no denial means that there is no work. More transactions follow in the same
// group: a receiver that takes one recipient or one domain a transaction would otherwise cost a round trip for each.
func (q *Queue) fillTransaction(s *session, now time.Time) budget.Denial {
	s.recipients, s.rcpts = s.recipients[:0], s.rcpts[:0]
	if now.Before(q.notBefore) && !(s.lastTransaction && q.tarpitPause) {
		return budget.Denial{Denied: true, Until: q.notBefore}
	}
	if q.queued[budget.ShortJob] > 0 {
		q.budget.Pacing.RecordShortJob(now)
	}
	hq := s.hostQueue
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Lock() // other queues use it too: held until the room is reserved
		defer addrLimit.Unlock()
	}
	rooms, denials := s.roomByPriority(now)
	if q.addTransaction(s, rooms, now) {
		s.answersAtSend = q.answersSeen
		for more := s.pipelineRoom(); more > 0; more = s.pipelineRoom() {
			rooms, _ := s.roomByPriority(now)
			for class := range rooms {
				rooms[class] = min(rooms[class], more)
			}
			if !q.addTransaction(s, rooms, now) {
				break
			}
		}
		hq.inFlightGroups = append(hq.inFlightGroups, inFlightGroup{s.answersAtSend, len(s.recipients)})
		s.closing = s.closing || s.lastTransaction
		return budget.Denial{}
	}
	var d budget.Denial // why what waits has no room
	switch waiting := hq.waitingCount(); {
	case s.lastTransaction && !denials[budget.LongJob].Lease:
		s.closing = true
		return budget.Denial{}
	case s.lastTransaction:
		return denials[budget.LongJob]
	case rooms[budget.Single] == 0 && waiting > 0:
		d = denials[budget.Single]
	case rooms[budget.ShortJob] == 0 && waiting > hq.queued[budget.Single]:
		d = denials[budget.ShortJob]
	case rooms[budget.LongJob] == 0 && waiting > hq.queued[budget.Single]+hq.queued[budget.ShortJob]:
		d = denials[budget.LongJob]
	default:
		s.closing = s.closing || hq.hasRetryFirst() && s.used.Transactions > 0 // what is left needs a new connection
		return budget.Denial{}
	}
	s.closing = s.closing || !d.Denied // the connection is used up: waiting lifts only a denial of a budget
	d.Denied = true
	return d
}

// addTransaction adds a transaction of at most so many recipients to the group, and reserves its budgets. It returns false if
// it would be empty.
func (q *Queue) addTransaction(s *session, rooms [budget.NumClasses]int, now time.Time) bool {
	hq, from := s.hostQueue, len(s.recipients)
	tb := transactionBuilder{q: q, s: s, oneDomain: q.Provider.OneDomain || s.oneDomain || hq.oneDomain}
	for class := range rooms {
		rooms[class] += from
	}
	switch {
	case s.lastTransaction:
		tb.addAllDecoys(rooms, now)
	case s.used.Transactions == 0 && hq.hasRetryFirst() && tb.addRetryFirst(rooms, now): // alone
	default:
		tb.addProbes(&hq.domains[budget.Single], budget.Single, rooms[budget.Single])
		tb.addAllDecoys(rooms, now)
		// Rows of jobs: first of the class whose turn it is, then of the other, if there is room left.
		both := q.queued[budget.ShortJob] > 0 && q.queued[budget.LongJob] > 0
		first, then := budget.ShortJob, budget.LongJob
		if q.recipientTurns.Next(both, q.queued[budget.ShortJob] > 0) == budget.LongJob {
			first, then = then, first
		}
		for _, class := range [...]budget.Class{first, then} {
			before := len(s.recipients)
			tb.addProbes(&hq.domains[class], class, rooms[class])
			if both {
				q.recipientTurns.Record(class, len(s.recipients)-before)
			}
		}
	}
	n, longJobs := len(s.recipients)-from, countLongJobs(s.recipients[from:])
	if n == 0 {
		return false
	}
	s.rcpts[from].NewTransaction = true
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
	return s.queue.latency.PipelineLimit(budget.MaxTransaction) - len(s.recipients)
}

// transactionBuilder fills one transaction.
type transactionBuilder struct {
	q         *Queue
	s         *session
	oneDomain bool
	domain    string // of the transaction, if it may have only one
}

// domainFits reports that a domain may be in this transaction.
func (tb *transactionBuilder) domainFits(domain string) bool {
	return !tb.oneDomain || tb.domain == "" || tb.domain == domain
}

// add adds a recipient with its local part.
func (tb *transactionBuilder) add(p *Probe, dq *domainQueue, class budget.Class, local string) {
	dq.inFlight++
	tb.domain = dq.domain
	tb.s.recipients = append(tb.s.recipients, recipient{p, dq, class == budget.LongJob})
	tb.s.rcpts = append(tb.s.rcpts, smtp.Rcpt{Local: local, Domain: dq.domain})
}

// addProbe takes a probe out of its queue.
func (tb *transactionBuilder) addProbe(p *Probe) {
	tb.q.dequeue(p)
	p.sends++
	tb.add(p, p.domainQueue, p.Priority, p.Ev.Address.Local())
}

// addProbes takes probes of one priority while the transaction holds fewer than room. A domain queue that has more goes to the ring's end,
// so that no domain keeps the others waiting.
func (tb *transactionBuilder) addProbes(r *ring[*domainQueue], class budget.Class, room int) {
	for looked := r.n; looked > 0 && len(tb.s.recipients) < room; looked-- {
		dq := r.pop()
		list := &dq.queues[class]
		for fits := tb.domainFits(dq.domain); fits && list.n > 0 && len(tb.s.recipients) < room; {
			tb.addProbe(list.first)
		}
		if list.n > 0 {
			r.push(dq)
		} else {
			dq.scheduled[class] = false
			dq.removeIfEmpty()
		}
	}
}

// addAllDecoys adds the pending decoys, those of the highest priority first.
func (tb *transactionBuilder) addAllDecoys(rooms [budget.NumClasses]int, now time.Time) {
	for _, class := range [...]budget.Class{budget.Single, budget.ShortJob, budget.LongJob} {
		r := &tb.s.hostQueue.pendingDecoys[class]
		tb.addDecoys(r, r.n, rooms[class], now)
	}
}

// addDecoys adds pending decoys of one priority, looking at so many at most, while the transaction holds fewer than room.
func (tb *transactionBuilder) addDecoys(r *ring[*domainQueue], look, room int, now time.Time) {
	for looked := min(look, r.n); looked > 0 && len(tb.s.recipients) < room; looked-- {
		dq := r.pop()
		if dq.decoy.waiting.n == 0 { // no probe waits for it any more
			dq.decoy.state = decoyUnknown
			dq.removeIfEmpty()
			continue
		}
		if !tb.domainFits(dq.domain) {
			r.push(dq)
			continue
		}
		dq.decoy.state = decoyAsking
		dq.decoy.asked++
		tb.add(nil, dq, dq.decoy.priority(), DecoyLocalPart(tb.s.keyer, dq.domain, now))
	}
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
	if q.queued[budget.ShortJob] > 0 {
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

// countLongJobs is how many recipients are for rows of long jobs.
func countLongJobs(recipients []recipient) (n int) {
	for i := range recipients {
		if recipients[i].longJob {
			n++
		}
	}
	return n
}
