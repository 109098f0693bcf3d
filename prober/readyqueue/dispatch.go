package readyqueue

import (
	"context"
	"slices"
	"time"

	"probity/prober/budget"
	"probity/prober/source"
)

// onWake dispatches after an event outside of the queue, such as a lease or a free slot.
func (q *Queue) onWake(now time.Time) {
	l := q.lock()
	defer l.unlock()
	l.dispatch(now)
}

// dispatch gives work to idle sessions and starts new ones, as budgets and work allow.
func (l *locked) dispatch(now time.Time) {
	if l.removed {
		return
	}
	for n := l.ready[budget.Single].Len(); n > 0; n-- {
		ok, more := l.assignConnection(budget.Single, now)
		if !ok {
			break
		}
		n += more
	}
	if l.waiting.Queued[budget.ShortJob] > 0 { // the pacing of long jobs knows of them
		l.budget.Pacing.RecordShortJob(now)
	}
	closedToLong := false // to long jobs
	for n := l.ready[budget.ShortJob].Len() + l.ready[budget.LongJob].Len(); n > 0; n-- {
		both := l.ready[budget.ShortJob].Len() > 0 && l.ready[budget.LongJob].Len() > 0 && !closedToLong
		priority, sessions := l.connectionTurns.Next(both, l.ready[budget.ShortJob].Len() > 0), l.sessions
		ok, more := l.assignConnection(priority, now)
		if !ok && priority == budget.LongJob && l.ready[budget.ShortJob].Len() > 0 && !closedToLong {
			closedToLong = true // pacing is for long jobs only
			continue
		}
		if !ok {
			break
		}
		if both {
			l.connectionTurns.Record(priority, l.sessions-sessions)
		}
		n += more
	}
}

// assignConnection finds a connection for the next host of a priority, if it needs one: an idle one, one shared by
// address (after a lookup), or a new one. It returns false if no connection can be had; then the other hosts need not
// be tried. more is 1 if the host needs another and is in the ring again.
func (l *locked) assignConnection(priority budget.Priority, now time.Time) (ok bool, more int) {
	m := l.ready[priority].Pop()
	m.ready[priority] = false
	if priority == budget.Single && m.Queued(budget.Single) > 0 {
		for _, s := range l.working {
			if s.host == m && s.admission != nil && l.env.Gate.Expedite(s.admission) {
				break // one session passes the admission gate at once
			}
		}
	}
	switch {
	case !m.needsSession(priority):
		m.removeIfEmpty()
		return true, 0
	case len(m.idle) > 0:
		m.idle[len(m.idle)-1].wakeIdle(l)
		if m.needsSession(priority) {
			m.schedule(priority)
		}
		return true, 0
	case l.shared.awaitLookup(m, priority, now), l.shared.wait(m, priority, now):
		return true, 0
	case !l.openConnection(m, priority, now):
		if !m.served() && l.shared.willBeServed(m, now) {
			l.shared.addWaiter(m, priority, now)
			return true, 0
		}
		m.schedule(priority)
		if !m.served() {
			l.ready[priority].MoveLastToFront() // it is the next to get a connection
		}
		return false, 0
	case !m.needsSession(priority):
		return true, 0
	}
	m.schedule(priority)
	return true, 1
}

// needsSession reports whether the work of a priority justifies one more session: the first, or more probes a session
// than worthConnection. A single call does not wait for the end of a session that is leaving.
func (m *mxHost) needsSession(priority budget.Priority) bool {
	work, sessions := m.Waiting(priority), m.sessions
	if priority == budget.Single {
		sessions -= m.leaving
	}
	// without work of short jobs the others have their own ring
	if priority == budget.LongJob || priority == budget.ShortJob && work > 0 {
		work = m.WaitingCount()
	}
	denied := m.denial != nil && priority <= m.denial.priority
	return work > 0 && !denied && (len(m.idle) > 0 || work > sessions*m.worthConnection())
}

// worthConnection is the queue's; at a high-latency host that closes early, it is what one connection answered.
func (m *mxHost) worthConnection() int {
	worth := m.in.worthConnection()
	if m.AnsweredBeforeClose > 0 && m.in.latency.IsHigh() {
		return min(m.AnsweredBeforeClose, worth)
	}
	return worth
}

// worthConnection returns how many waiting probes justify one more; the latency says it where transactions are sent in
// groups.
func (l *locked) worthConnection() int {
	lim := l.budget.Limits
	n := budget.Least(budget.MaxTransaction, lim.RefusalsPerConnection, lim.RecipientsPerConnection)
	switch few := budget.Least(n, lim.RecipientsPerTransaction); {
	case lim.Connections > 0:
		return few
	case l.latency.IsHigh():
		return l.latency.WorthConnection(4 * n)
	default:
		return 4 * few
	}
}

// openConnection reserves a connection for a host and starts its session; if denied, the queue is woken in time.
func (l *locked) openConnection(m *mxHost, priority budget.Priority, now time.Time) bool {
	if l.connectDisabled(now) {
		if l.quarantined(now) {
			l.armTimer(l.budget.QuarantinedUntil, now)
		}
		return false
	}
	if wait := l.delay.ConnectAllowedAt(); now.Before(wait) {
		l.armTimer(wait, now)
		return false
	}
	if l.budget.Limits.Connections == 0 && l.sessions >= l.latency.ConnectionCap(l.env.MaxQueueSessions,
		l.env.MaxSessions, m.sessions) {
		l.makeRoom(m, now)
		return false
	}
	if n, d := l.budget.Room(&budget.Conn{}, priority, now); n == 0 {
		l.awaitBudget(d, now)
		return false
	}
	if d := l.budget.ReserveConnect(priority, now); d.Denied {
		if d.Until.IsZero() {
			l.makeRoom(m, now)
		}
		l.awaitBudget(d, now)
		return false
	}
	if !l.env.Slots.Acquire(&l.queue.slot, priority) {
		l.budget.CancelConnect()
		return false
	}
	s := l.newSession(m, priority)
	wait, nextTrial := l.Source.TryAt(l.Key.Route, m.reachTrial, l.Scaled(source.DelistingInterval), now)
	s.nextTrial = nextTrial
	sourceAllows := !now.Before(wait) // neither quarantine nor trial interval
	if sourceAllows {
		l.shared.attach(s, m.lookup.Addr)
	} else {
		l.armTimer(wait, now)
	}
	if sourceAllows && l.env.Start(s.run) {
		m.sessions++
		m.wait.End()
		l.sessions++
		return true
	}
	l.shared.detach(s)
	l.budget.CancelConnect()
	if l.env.Slots.Release() { // others may have begun to wait for it meanwhile; waking them locks their queues
		l.env.Start(func(context.Context, context.Context) { l.env.Slots.WakeWaiting(time.Now()) })
	}
	return false
}

// makeRoom frees a connection for a host that will get no session: an idle one of another closes at once, a busy one
// soon, and one that expects requests at its address after its linger time. For a single call one that waits for the
// server's close ends soon, too.
func (l *locked) makeRoom(m *mxHost, now time.Time) {
	if l.shared.willBeServed(m, now) {
		return
	}
	l.waitingForConnection, l.singleWaiting = true, l.singleWaiting || m.Waiting(budget.Single) > 0
	if l.singleWaiting {
		hurry(l.working)
	}
	if l.idleCount == 0 {
		return
	}
	for _, other := range l.hosts {
		for _, s := range other.idle {
			if other != m && !l.shared.expectsRequests(s) {
				s.phase.close()
				s.wakeIdle(l)
				return
			}
		}
	}
}

// awaitBudget makes sure that the queue is woken when a denial may have ended.
func (l *locked) awaitBudget(d budget.Denial, now time.Time) {
	switch {
	case d.Lease:
		l.env.BudgetLog.RequestLease(&l.budget)
	case !d.Until.IsZero():
		l.armTimer(d.Until, now)
	}
}

// armTimer makes sure that the queue is woken at this time or before.
func (l *locked) armTimer(at, now time.Time) {
	if l.timer != nil && !l.timerAt.After(at) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timerAt = at
	l.timer = time.AfterFunc(max(at.Sub(now), time.Millisecond), l.queue.onTimer)
}

// onTimer runs when the timer fires: it ends waits that are over and dispatches.
func (q *Queue) onTimer() {
	l := q.lock()
	defer l.unlock()
	l.timer, l.timerAt = nil, time.Time{}
	now := time.Now()
	for _, m := range slices.Clone(l.denied) {
		if now.Before(m.denial.until) {
			l.armTimer(m.denial.until, now)
		} else {
			m.endDenial()
		}
	}
	l.shared.endWaits(now)
	l.dispatch(now)
}

// deny keeps it from starting sessions for a priority and those below until a time; zero if only its address limit can
// tell.
func (m *mxHost) deny(priority budget.Priority, until, now time.Time) {
	if m.denial == nil {
		m.in.denied = append(m.in.denied, m)
	}
	m.denial = &addressDenial{priority: priority, until: until, untilKnown: !until.IsZero()}
	if !m.denial.untilKnown {
		m.denial.until = now.Add(maxAddressWait)
	}
	m.in.armTimer(m.denial.until, now)
}

// endDenial ends its wait for its address limit.
func (m *mxHost) endDenial() {
	if m.denial == nil {
		return
	}
	m.denial = nil
	m.in.denied = without(m.in.denied, m)
	m.scheduleNeeded()
}

// scheduleNeeded schedules it in each priority in which it needs a session.
func (m *mxHost) scheduleNeeded() {
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		if m.needsSession(priority) {
			m.schedule(priority)
		}
	}
	m.removeIfEmpty()
}

// SendReachTrial connects to the host of a target without a recipient to ask about: a reachability trial. It returns
// false if it may not.
func (q *Queue) SendReachTrial(to *source.Target, now time.Time) bool {
	l := q.lock()
	defer l.unlock()
	if l.removed || now.Before(l.budget.QuarantinedUntil) {
		return false
	}
	m := l.newHost(to.Route.Hosts[0], to.Hosts)
	m.LastDomain, m.reachTrial = to.Domain, true
	return l.openConnection(m, budget.LongJob, now)
}
