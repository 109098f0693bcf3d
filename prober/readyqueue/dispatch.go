package readyqueue

import (
	"slices"
	"time"

	"probity/prober/budget"
	"probity/prober/source"
)

// onWake dispatches after an event outside of the queue, such as a lease or a free slot.
func (q *Queue) onWake(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dispatch(now)
}

// dispatch gives work to idle sessions and starts new ones, as budgets and work allow. The mutex is held.
func (q *Queue) dispatch(now time.Time) {
	if q.removed {
		return
	}
	for n := q.ready[budget.Single].Len(); n > 0; n-- {
		ok, more := q.assignConnection(budget.Single, now)
		if !ok {
			break
		}
		n += more
	}
	if q.waiting.Queued[budget.ShortJob] > 0 { // the pacing of long jobs knows of them
		q.budget.Pacing.RecordShortJob(now)
	}
	closedToLong := false // to long jobs
	for n := q.ready[budget.ShortJob].Len() + q.ready[budget.LongJob].Len(); n > 0; n-- {
		both := q.ready[budget.ShortJob].Len() > 0 && q.ready[budget.LongJob].Len() > 0 && !closedToLong
		priority, sessions := q.connectionTurns.Next(both, q.ready[budget.ShortJob].Len() > 0), q.sessions
		ok, more := q.assignConnection(priority, now)
		if !ok && priority == budget.LongJob && q.ready[budget.ShortJob].Len() > 0 && !closedToLong {
			closedToLong = true // pacing holds for long jobs only
			continue
		}
		if !ok {
			break
		}
		if both {
			q.connectionTurns.Record(priority, q.sessions-sessions)
		}
		n += more
	}
}

// assignConnection finds a connection for the next host queue of a priority, if it needs one: an idle one, one shared by
// address (after a lookup), or a new one. It returns false if no connection can be had; then the other host queues need not
// be tried. more is 1 if the host queue needs another and is in the ring again.
func (q *Queue) assignConnection(priority budget.Priority, now time.Time) (ok bool, more int) {
	hq := q.ready[priority].Pop()
	hq.ready[priority] = false
	if priority == budget.Single && hq.Queued(budget.Single) > 0 {
		for _, t := range hq.waitingAdmission {
			if q.env.Gate.Expedite(t) {
				break // one session passes the admission gate at once
			}
		}
	}
	switch {
	case !hq.needsSession(priority):
		hq.removeIfEmpty()
		return true, 0
	case len(hq.idle) > 0:
		hq.idle[len(hq.idle)-1].wakeIdle()
		if hq.needsSession(priority) {
			hq.schedule(priority)
		}
		return true, 0
	case q.shared.awaitLookup(hq, priority, now), q.shared.wait(hq, priority, now):
		return true, 0
	case !q.openConnection(hq, priority, now):
		if hq.sessions == 0 && q.shared.willBeServed(hq) {
			q.shared.addWaiter(hq, priority, now)
			return true, 0
		}
		hq.schedule(priority)
		if hq.sessions == 0 {
			q.ready[priority].MoveLastToFront() // it is the next to get a connection
		}
		return false, 0
	case !hq.needsSession(priority):
		return true, 0
	}
	hq.schedule(priority)
	return true, 1
}

// needsSession reports that the work of a priority justifies one more session: the first, or more probes a session than worthConnection.
func (hq *hostQueue) needsSession(priority budget.Priority) bool {
	work := hq.Waiting(priority)
	if priority == budget.LongJob || priority == budget.ShortJob && work > 0 { // without work of short jobs the others have their own ring
		work = hq.WaitingCount()
	}
	blocked := hq.blocked && priority <= hq.deniedPriority
	return work > 0 && !blocked && (len(hq.idle) > 0 || work > hq.sessions*hq.worthConnection())
}

// worthConnection is the queue's; at a high-latency host that closes early, it is what one connection answered.
func (hq *hostQueue) worthConnection() int {
	worth := hq.queue.worthConnection()
	if hq.AnsweredBeforeClose > 0 && hq.queue.latency.IsHigh() {
		return min(hq.AnsweredBeforeClose, worth)
	}
	return worth
}

// worthConnection is how many waiting probes justify one more; the latency says it where transactions are sent in groups.
func (q *Queue) worthConnection() int {
	lim := q.budget.Limits
	n := budget.Least(budget.MaxTransaction, lim.RefusalsPerConnection, lim.RecipientsPerConnection)
	switch few := budget.Least(n, lim.RecipientsPerTransaction); {
	case lim.Connections > 0:
		return few
	case q.latency.IsHigh():
		return q.latency.WorthConnection(4 * n)
	default:
		return 4 * few
	}
}

// openConnection reserves a connection for a host queue and starts its session; if denied, the queue is woken in time.
func (q *Queue) openConnection(hq *hostQueue, priority budget.Priority, now time.Time) bool {
	if q.connectDisabled(now) {
		if q.quarantined(now) {
			q.armTimer(q.budget.QuarantinedUntil, now)
		}
		return false
	}
	if wait := q.hold.ConnectAllowedAt(); now.Before(wait) {
		q.armTimer(wait, now)
		return false
	}
	if q.budget.Limits.Connections == 0 && q.sessions >= q.latency.ConnectionCap(q.env.MaxQueueSessions, q.env.MaxSessions, hq.sessions) {
		q.makeRoom(hq)
		return false
	}
	if n, d := q.budget.Room(&budget.Conn{}, priority, now); n == 0 {
		q.awaitBudget(d, now)
		return false
	}
	if d := q.budget.ReserveConnect(priority, now); d.Denied {
		if d.Until.IsZero() {
			q.makeRoom(hq)
		}
		q.awaitBudget(d, now)
		return false
	}
	if !q.env.Slots.Acquire(&q.slot, priority) {
		q.budget.CancelConnect()
		return false
	}
	s := newSession(q, hq, priority)
	wait, nextTrial := q.Source.TryAt(q.Key.Route, hq.reachTrial, q.scaled(source.DelistingInterval), now)
	s.nextTrial = nextTrial
	sourceAllows := !now.Before(wait) // neither quarantine nor trial interval
	if sourceAllows {
		q.shared.attach(s, hq.addr)
	} else {
		q.armTimer(wait, now)
	}
	if sourceAllows && q.env.Start(s.run) {
		hq.sessions++
		hq.waitingSince, hq.gaveUpWaiting = time.Time{}, false
		q.sessions++
		return true
	}
	q.shared.detach(s)
	q.budget.CancelConnect()
	q.env.Slots.Release()
	return false
}

// makeRoom frees a connection for a host queue that will get no session: an idle one of another closes at once, a busy one
// soon, and one that expects requests at its address after its linger time.
func (q *Queue) makeRoom(hq *hostQueue) {
	if q.shared.willBeServed(hq) {
		return
	}
	q.waitingForConnection, q.singleWaiting = true, q.singleWaiting || hq.Waiting(budget.Single) > 0
	if q.idleCount == 0 {
		return
	}
	for _, other := range q.hostQueues {
		for _, s := range other.idle {
			if other != hq && !s.expectsRequests() {
				s.closing = true
				s.wakeIdle()
				return
			}
		}
	}
}

// awaitBudget makes sure that the queue is woken when a denial may have ended.
func (q *Queue) awaitBudget(d budget.Denial, now time.Time) {
	switch {
	case d.Lease:
		q.env.BudgetLog.RequestLease(&q.budget)
	case !d.Until.IsZero():
		q.armTimer(d.Until, now)
	}
}

// armTimer makes sure that the queue is woken at this time or before.
func (q *Queue) armTimer(at, now time.Time) {
	if q.timer != nil && !q.timerAt.After(at) {
		return
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.timerAt = at
	q.timer = time.AfterFunc(max(at.Sub(now), time.Millisecond), q.onTimer)
}

// onTimer runs when the timer fires: it ends waits that are over and dispatches.
func (q *Queue) onTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer, q.timerAt = nil, time.Time{}
	now := time.Now()
	for _, hq := range slices.Clone(q.blocked) {
		if now.Before(hq.blockedUntil) {
			q.armTimer(hq.blockedUntil, now)
		} else {
			hq.endBlock()
		}
	}
	q.shared.endWaits(now)
	q.dispatch(now)
}

// block keeps it from starting sessions for a priority and those below until a time; zero if only its address limit can tell.
func (hq *hostQueue) block(priority budget.Priority, until, now time.Time) {
	hq.untilKnown = !until.IsZero()
	if !hq.untilKnown {
		until = now.Add(maxAddressWait)
	}
	hq.blockedUntil, hq.deniedPriority = until, priority
	if !hq.blocked {
		hq.blocked = true
		hq.queue.blocked = append(hq.queue.blocked, hq)
	}
	hq.queue.armTimer(until, now)
}

// endBlock ends its wait for its address limit.
func (hq *hostQueue) endBlock() {
	if !hq.blocked {
		return
	}
	hq.blocked = false
	hq.queue.blocked = without(hq.queue.blocked, hq)
	hq.scheduleNeeded()
}

// scheduleNeeded schedules it in each priority in which it needs a session.
func (hq *hostQueue) scheduleNeeded() {
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		if hq.needsSession(priority) {
			hq.schedule(priority)
		}
	}
	hq.removeIfEmpty()
}

// SendReachTrial connects to the host of a target without a recipient to ask about: a reachability trial. It returns false if it may not.
func (q *Queue) SendReachTrial(to *source.Target, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.removed || now.Before(q.budget.QuarantinedUntil) {
		return false
	}
	hq := q.newHostQueue(to.Route.Hosts[0], to.Hosts)
	hq.LastDomain, hq.reachTrial = to.Domain, true
	return q.openConnection(hq, budget.LongJob, now)
}
