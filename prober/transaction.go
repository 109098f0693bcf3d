package prober

import (
	"time"

	"probity/engine/smtp"
)

// recipient is one recipient of a transaction: a target, or the decoy of a domain queue if probe is nil.
type recipient struct {
	probe       *probe
	domainQueue *domainQueue
	longJob     bool // for a row of a long job
}

// fillTransaction fills the session's next transaction and reserves its budgets: single calls first, then decoys, then jobs. If
// there is nothing to send, the denial says why; no denial means that there is no work. More transactions follow in the same
// group: a receiver that takes one recipient or one domain a transaction would otherwise cost a round trip for each.
func (q *readyQueue) fillTransaction(s *session, now time.Time) denial {
	s.recipients, s.rcpts = s.recipients[:0], s.rcpts[:0]
	if now.Before(q.notBefore) && !(s.lastTransaction && q.tarpitPause) {
		return denial{denied: true, until: q.notBefore}
	}
	q.noteShortJob(now)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.mu.Lock() // other queues use it too: held until the room is reserved
		defer addrLimit.mu.Unlock()
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
		s.hostQueue.markSent(s)
		s.closing = s.closing || s.lastTransaction
		return denial{}
	}
	hq := s.hostQueue
	switch {
	case s.lastTransaction && !denials[bulk].lease:
		s.closing = true
	case s.lastTransaction:
		return denials[bulk]
	case rooms[single] == 0 && hq.waitingCount() > 0:
		return s.leaveIfUsedUp(denials[single])
	case rooms[short] == 0 && hq.waitingCount() > hq.queued[single]:
		return s.leaveIfUsedUp(denials[short])
	case rooms[bulk] == 0 && hq.waitingCount() > hq.queued[single]+hq.queued[short]:
		return s.leaveIfUsedUp(denials[bulk])
	case hq.hasRetryFirst() && s.used.transactions > 0:
		s.closing = true // what is left needs a new connection
	}
	return denial{}
}

// addTransaction adds a transaction of at most so many recipients to the group, and reserves its budgets. It returns false if
// it would be empty.
func (q *readyQueue) addTransaction(s *session, rooms [numPriorities]int, now time.Time) bool {
	hq, from := s.hostQueue, len(s.recipients)
	f := transactionBuilder{l: q, s: s, oneDomain: q.provider.OneDomain || s.oneDomain || hq.oneDomain}
	for class := range rooms {
		rooms[class] += from
	}
	switch {
	case s.lastTransaction:
		f.addAllDecoys(rooms, now)
	case !f.addRetryFirst(rooms, now):
		f.addProbes(&hq.domains[single], single, rooms[single])
		f.addAllDecoys(rooms, now)
		f.addJobRows(rooms)
	}
	n := len(s.recipients) - from
	if n == 0 {
		return false
	}
	s.rcpts[from].NewTransaction = true
	s.reserve(n)
	q.prober.metrics.transactions.Inc()
	return true
}

// pipelineRoom is how many more recipients the group may hold, in another transaction: none if the connection has not answered
// yet, or the host has shown that it takes only so much.
func (s *session) pipelineRoom() int {
	if !s.progress || s.hostQueue.maxRecipients > 0 || s.hostQueue.oneAtATime || !s.conn.Extensions().Pipelining {
		return 0
	}
	return s.queue.latency.PipelineLimit(maxTransaction) - len(s.recipients)
}

// transactionBuilder fills one transaction.
type transactionBuilder struct {
	l         *readyQueue
	s         *session
	oneDomain bool
	domain    string // of the transaction, if it may have only one
}

// domainFits reports that a domain may be in this transaction.
func (f *transactionBuilder) domainFits(domain string) bool {
	return !f.oneDomain || f.domain == "" || f.domain == domain
}

func (f *transactionBuilder) addRecipient(p *probe, dq *domainQueue) {
	f.domain = dq.domain
	dq.inFlight++
	class := bulk
	if p != nil {
		class = p.priority
	} else {
		class = dq.decoy.priority()
	}
	f.s.recipients = append(f.s.recipients, recipient{p, dq, class == bulk})
	if p != nil {
		f.s.rcpts = append(f.s.rcpts, smtp.Rcpt{Local: p.ev.Address.Local(), Domain: dq.domain})
	}
}

// addProbe takes a probe out of its queue.
func (f *transactionBuilder) addProbe(p *probe) {
	f.l.dequeue(p)
	p.sends++
	f.addRecipient(p, p.domainQueue)
}

// addProbes takes probes of one priority while the transaction holds fewer than room. A domain queue that has more goes to the ring's end,
// so that no domain keeps the others waiting.
func (f *transactionBuilder) addProbes(r *ring[*domainQueue], class priority, room int) {
	for looked := r.n; looked > 0 && len(f.s.recipients) < room; looked-- {
		dq := r.pop()
		list := &dq.queues[class]
		for fits := f.domainFits(dq.domain); fits && list.n > 0 && len(f.s.recipients) < room; {
			f.addProbe(list.first)
		}
		if list.n > 0 {
			r.push(dq)
		} else {
			dq.scheduled[class] = false
			f.l.removeIfEmpty(dq)
		}
	}
}

// addJobRows adds rows of jobs: first of the class whose turn it is, then of the other, if there is room left.
func (f *transactionBuilder) addJobRows(rooms [numPriorities]int) {
	q, hq := f.l, f.s.hostQueue
	both := q.queued[short] > 0 && q.queued[bulk] > 0
	first, then := short, bulk
	if q.recipientTurns.next(both, q.queued[short] > 0) == bulk {
		first, then = bulk, short
	}
	for _, class := range [...]priority{first, then} {
		before := len(f.s.recipients)
		f.addProbes(&hq.domains[class], class, rooms[class])
		if both {
			q.recipientTurns.record(class, len(f.s.recipients)-before)
		}
	}
}

// addAllDecoys adds the pending decoys, those of the highest priority first.
func (f *transactionBuilder) addAllDecoys(rooms [numPriorities]int, now time.Time) {
	for _, class := range [...]priority{single, short, bulk} {
		r := &f.s.hostQueue.pendingDecoys[class]
		f.addDecoys(r, r.n, rooms[class], now)
	}
}

// addDecoys adds pending decoys of one priority, looking at so many at most, while the transaction holds fewer than room.
func (f *transactionBuilder) addDecoys(r *ring[*domainQueue], look, room int, now time.Time) {
	for looked := min(look, r.n); looked > 0 && len(f.s.recipients) < room; looked-- {
		dq := r.pop()
		if dq.decoy.waiting.n == 0 { // no probe waits for it any more
			dq.decoy.state = decoyUnknown
			f.l.removeIfEmpty(dq)
			continue
		}
		if !f.domainFits(dq.domain) {
			r.push(dq)
			continue
		}
		dq.decoy.state = decoyAsking
		dq.decoy.asked++
		f.addRecipient(nil, dq)
		f.s.rcpts = append(f.s.rcpts, smtp.Rcpt{Local: decoyLocalPart(f.s.keyer, dq.domain, now), Domain: dq.domain})
	}
}

// roomByPriority is room for each priority, and why there is none. The address limit's mutex is held too.
func (s *session) roomByPriority(now time.Time) (rooms [numPriorities]int, denials [numPriorities]denial) {
	rooms[single], denials[single] = s.room(single, now)
	rooms[bulk], denials[bulk] = s.room(bulk, now)
	if rooms[short], denials[short] = rooms[bulk], denials[bulk]; s.jobClassesDiffer(now) {
		rooms[short], denials[short] = s.room(short, now)
	}
	return rooms, denials
}

// jobClassesDiffer reports that short jobs may have more than long ones, on the route or at its address limit, which learns of
// short jobs here.
func (s *session) jobClassesDiffer(now time.Time) bool {
	q, addrLimit := s.queue, s.addressLimit
	if addrLimit == nil {
		return q.budget.jobClassesDiffer(now)
	}
	if q.queued[short] > 0 {
		addrLimit.noteDemand(short, q.budget.LongBacklogUntil(), now)
	}
	return q.budget.jobClassesDiffer(now) || addrLimit.budget.jobClassesDiffer(now)
}

// room is how many recipients may be sent now, by the queue, the address limit, the server's own limits and what was learnt of
// it.
func (s *session) room(class priority, now time.Time) (int, denial) {
	n, d := s.queue.budget.room(&s.used, class, now)
	if addrLimit := s.addressLimit; addrLimit != nil && n > 0 {
		m, dd := addrLimit.budget.room(&s.addressUsed, class, now)
		if n = min(n, m); m == 0 {
			d = dd
			if dd.lease {
				s.addressLease = true
			}
		}
	}
	if g := s.hostQueue.maxRecipients; g > 0 {
		n = min(n, g)
	}
	if s.queue.budget.Limits().Connections == 0 {
		n = min(n, s.queue.latency.TransactionLimit(maxTransaction))
	}
	if s.maxRcpt > 0 {
		n = min(n, s.maxRcpt)
	}
	if s.maxMail > 0 && s.used.transactions >= s.maxMail {
		n = 0
	}
	return n, d
}

// reserve takes n recipients and a transaction from all budgets. The address limit's mutex is held too.
func (s *session) reserve(n int) {
	s.queue.budget.reserve(&s.used, n)
	longJobs := countLongJobs(s.recipients[len(s.recipients)-n:])
	s.queue.budget.ReserveLong(longJobs)
	s.used.transactions++
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.budget.reserve(&s.addressUsed, n)
		addrLimit.budget.ReserveLong(longJobs)
	}
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

// settle returns to all budgets what a transaction of n recipients has not used: `unsent` were never sent, `accepted` were
// accepted. Of the rest, `deferred` got a 4xx that says nothing of the mailbox: they count on the connection, not in the hour.
func (s *session) settle(n, unsent, accepted, deferred int, now time.Time) {
	settleOne := func(p *persistedBudget, c *connUsage) {
		p.release(c, unsent)
		p.settle(c, n-unsent, accepted, deferred, now)
	}
	settleOne(&s.queue.budget, &s.used)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.mu.Lock()
		settleOne(&addrLimit.budget, &s.addressUsed)
		addrLimit.mu.Unlock()
	}
}

// settleLong settles n recipients of long jobs, of which `refused` count in the hour, with the pacing of those.
func (s *session) settleLong(n, refused int, now time.Time) {
	s.queue.budget.settleLong(n, refused, now)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.mu.Lock()
		addrLimit.budget.settleLong(n, refused, now)
		addrLimit.mu.Unlock()
	}
}

// leaveIfUsedUp ends a session whose connection is used up; waiting lifts only a denial of a budget.
func (s *session) leaveIfUsedUp(d denial) denial {
	if !d.denied {
		s.closing = true
	}
	d.denied = true
	return d
}
