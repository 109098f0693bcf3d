package readyqueue

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/addresslimit"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hosthealth"
	"probity/prober/hostqueue"
	"probity/prober/source"
	"probity/store/cache"
)

// session is one connection of a ready queue to a host, and the goroutine that works on it. The goroutine alone uses
// link and exchange; others look at observed, with the queue locked. There are two exceptions in exchange, both with
// the queue locked: Reset reads the recipients, which change under that lock only, and a caller that gives an idle
// session to another host (handOver) settles what is left of its replies there.
type session struct {
	queue    *Queue
	priority budget.Priority // that it was opened for
	keyer    *cache.Keyer
	seat     admission.Seat
	wake     chan struct{}
	link
	exchange
	observed
}

// link is the connection: to which address it leads, from which source, and what the server said about itself.
type link struct {
	source       *source.Source // the queue's, or the one that reaches IPv6 hosts
	addr         netip.Addr     // one of addrs
	addrs        []netip.Addr   // of the host
	addressLimit *addresslimit.Limit
	addressUsed  budget.Conn         // of that; guarded by its mutex
	addressLease bool                // it needs a lease
	dialogue     hosthealth.Dialogue // what was known of the host when it was looked up
	conn         *smtp.Session
	dialled      bool
	began        time.Time // when it was
	tlsFailed    bool      // TLS has failed here before
	maxRcpt      int       // the server's own limits (RFC 9422); 0 for none
	maxMail      int
	oneDomain    bool
	nextTrial    time.Time // if its source was quarantined everywhere when it began: when the next trial may start
}

// exchange is what the session sends at one time, with its replies. The memory is reused.
type exchange struct {
	group     hostqueue.Group
	seen      []hostqueue.Answer
	delivered []bool // by recipient: it was answered

	answersUnproven bool               // the host's dialogue must be confirmed before its replies count
	unproven        hostqueue.Unproven // what the replies came to, until it is
	acceptedDomains map[string]bool
}

// observed is what the queue and its other sessions know of a session.
type observed struct {
	host               *mxHost             // see sharedConnections.handOver for what may change it
	shown              *hostqueue.Progress // by the connection, of that host
	pool               *addressPool        // where it is connected to, or will be
	used               budget.Conn
	transactionsBefore int  // transactions before it came to its host
	progress           bool // some recipient was answered on this connection
	answered           bool // and some of its host
	phase              phase
	leaving            bool           // it sends nothing more but QUIT, and counts in its host's leaving
	farewell           *conn.Farewell // it waits for nothing but the end of this; nil if not

	cancel    context.CancelFunc // ends it at once; nil before it begins and after its end
	admission *admission.Ticket  // its wait at the admission gate; nil for none
}

// phase is what a session may still send. It only goes on.
type phase uint8

const (
	open    phase = iota // transactions
	closing              // a control for what it has shown, then QUIT
	reset                // nothing: it was cancelled (Queue.Reset)
)

// close has the session send no more than a control.
func (p *phase) close() { *p = max(*p, closing) }

// collectInto exchanges the probes that have finished since the queue was locked for those that the session holds back
// until its dialogue is known to be in step. What finishes between two calls, which are a pair, rests on its replies.
func (s *session) collectInto(l *locked) {
	l.finished, s.unproven.Finished = s.unproven.Finished, l.finished
}

func (l *locked) newSession(m *mxHost, priority budget.Priority) *session {
	return &session{queue: l.queue, priority: priority, keyer: l.env.Cache.Keyer(),
		seat:     admission.Seat{Gate: l.env.Gate},
		wake:     make(chan struct{}, 1),
		link:     link{source: l.Source, tlsFailed: m.tlsFailed},
		exchange: exchange{acceptedDomains: map[string]bool{}},
		observed: observed{host: m, shown: &hostqueue.Progress{Connection: l.env.connections.Add(1)}}}
}

// run is the life of a session:
//
//  1. it waits for its seat at the admission gate;
//  2. it looks its host up, reserves a place at the address, dials and greets (connect);
//  3. it fills a transaction, or a group of them, with what may be sent now; without any it is handed over to another
//     host, or waits idle (nextTransaction);
//  4. it sends the group and handles the replies; then 3 again (sendTransaction);
//  5. it says QUIT and waits for the server's close; unproven answers count now, or are asked for again (quit);
//  6. it gives back its place in the budgets, and lets the others go on (end).
//
// Where 1 or 2 fails, 6 follows. Nothing new begins when soft ends; when hard ends, what has begun ends too.
func (s *session) run(soft, hard context.Context) {
	hard, cut := context.WithCancel(hard)
	defer cut()
	l := s.queue.lock()
	s.cancel = cut
	l.working = append(l.working, s)
	s.seat.HighLatency = l.latency.HighRTT(&l.env.NodeRTT)
	l.unlock()
	if soft.Err() == nil && s.enterGate(soft) && !s.queue.env.Slots.Closed() && s.connect(hard) {
		for s.nextTransaction(soft) && s.sendTransaction(hard) {
			s.seat.Leave()
		}
		s.seat.Leave()
		s.quit(hard)
	}
	s.end()
}

// quit leaves the server. The answers of a first connection count if they are known to be in step. If not, they are
// asked for again, one by one.
func (s *session) quit(hard context.Context) {
	q, farewell := s.queue, conn.BeginFarewell(hard)
	l := q.lock()
	s.leaving = true
	s.host.leaving++
	if s.pool != nil || s.host.Waiting(budget.Single) > 0 { // before QUIT, which may take a while
		l.shared.detach(s)
		s.host.scheduleNeeded()
		l.dispatch(time.Now())
	}
	l.unlock()
	confirmed := !s.answersUnproven || !s.progress || farewell.Confirms(s.conn)
	l = q.lock()
	s.farewell = farewell
	if l.singleWaiting {
		hurry(l.working)
	}
	switch now := time.Now(); {
	case !s.answersUnproven || !s.progress:
	case confirmed:
		l.hostHealth.ConfirmDialogue(s.host.Name)
	case s.phase == reset:
		l.probes += s.unproven.Void(&s.host.Queue, s.shown.Connection, engine.EventReply, now)
	default:
		l.hostHealth.DoubtDialogue(s.host.Name)
		l.probes += s.unproven.Void(&s.host.Queue, s.shown.Connection, engine.EventOutOfStep, now)
	}
	l.unlock()
	q.env.release(q, &s.unproven)
	farewell.End(s.conn)
}

// end gives back what the session has: its seat, its connection in the budgets, its slot, and its place among the
// queue's sessions.
func (s *session) end() {
	q, env, now := s.queue, s.queue.env, time.Now()
	s.seat.Leave()
	if s.addressLimit != nil {
		s.addressLimit.ConnectionClosed(now)
		s.addressLimit.Release()
	}
	l := q.lock()
	l.working = without(l.working, s)
	s.cancel = nil
	if s.phase == reset {
		l.unlock()
		env.DropUnwanted(q) // what it asked is in the queue again
		q.lock()
	}
	if s.dialled {
		l.budget.ConnectionClosed()
	} else {
		l.budget.CancelConnect()
	}
	s.host.Leave(s.shown, now)
	l.sessions--
	s.host.sessions--
	s.farewell = nil
	if s.leaving {
		s.host.leaving--
	}
	if s.answered {
		s.host.healthy--
	}
	l.waitingForConnection, l.singleWaiting = false, false
	l.shared.detach(s)
	s.host.scheduleNeeded()
	env.Slots.Release()
	l.dispatch(now)
	l.unlock()
	env.Slots.WakeWaiting(now)
}

// enterGate takes the session through the admission gate, before any work for the processor. It returns false if ctx
// ended first.
func (s *session) enterGate(ctx context.Context) bool {
	q, gate := s.queue, s.queue.env.Gate
	if s.seat.Taken() {
		return true
	}
	t := gate.Enter()
	if s.seat.Take(t == nil) {
		return true
	}
	l := q.lock()
	if s.host.Queued(budget.Single) > 0 {
		gate.Expedite(t)
	}
	s.admission = t
	if s.phase == reset {
		gate.Expedite(t)
	}
	l.unlock()
	s.seat.Take(gate.Wait(ctx, t))
	l = q.lock()
	s.admission = nil
	l.unlock()
	return s.seat.Taken()
}

// nextTransaction fills the next transaction; it waits a little for work or for budgets. It returns false if the
// session should end, as a reachability trial does: it sends no recipient, not even a control.
func (s *session) nextTransaction(ctx context.Context) bool {
	q := s.queue
	if s.host.reachTrial {
		return false
	}
	for ctx.Err() == nil && s.enterGate(ctx) {
		l := q.lock()
		now := time.Now()
		if s.mustClose(l, now) {
			s.phase.close()
			if s.phase == closing && !s.host.misleads(s, now) && s.host.NeedsControl(s.shown) {
				s.fillTransaction(l, now) // of the control
			}
			l.unlock()
			return len(s.group.Recipients) > 0
		}
		s.seat.HighLatency = l.latency.HighRTT(&q.env.NodeRTT)
		if s.used.Transactions-s.transactionsBefore >= maxHostTurn && s.host.Waiting(budget.Single) == 0 {
			l.shared.handOverNext(s, now)
		}
		d := s.fillTransaction(l, now)
		if len(s.group.Recipients) > 0 {
			l.unlock()
			return true
		}
		if !d.Denied && l.shared.handOverNext(s, now) {
			l.unlock()
			continue
		}
		wait := s.idleTimeout(l, d, now)
		if wait <= 0 || s.phase != open {
			s.phase.close()
			l.unlock()
			continue
		}
		s.host.idle = append(s.host.idle, s)
		if s.pool != nil {
			s.pool.idle = append(s.pool.idle, s)
		}
		l.idleCount++
		s.host.scheduleNeeded() // a dispatch finds it idle, also for work that is worth no new connection
		l.unlock()
		s.seat.Leave()
		select {
		case <-s.wake:
			continue
		case <-time.After(wait):
		case <-ctx.Done():
		}
		l = q.lock()
		woken := !s.takeIdle(l)
		if woken {
			<-s.wake // it has just been given work
		}
		hasWork := woken || s.host.WaitingCount() > 0 || s.host.NeedsControl(s.shown)
		l.unlock()
		if !hasWork {
			return false
		}
	}
	return false
}

// maxSent is how many recipients a connection carries where the receiver names no limit. Package conn bounds the bytes
// of their replies.
const (
	maxSent = 5000

	turn, longTurn = 8, 40 // transactions, while others wait for a connection
)

// hurry ends farewells soon: a single call needs the place of one. They count until they have closed.
func hurry(working []*session) {
	for _, s := range working {
		if s.farewell != nil {
			s.farewell.Hurry()
			s.farewell = nil
		}
	}
}

// wakeIdle wakes a session if it is idle.
func (s *session) wakeIdle(l *locked) {
	if s.takeIdle(l) {
		s.wake <- struct{}{} // has room: a session is idle once
	}
}

// takeIdle removes a session from the idle ones; false if it was not idle.
func (s *session) takeIdle(l *locked) bool {
	if !slices.Contains(s.host.idle, s) {
		return false
	}
	s.host.idle = without(s.host.idle, s)
	if s.pool != nil {
		s.pool.idle = without(s.pool.idle, s)
	}
	l.idleCount--
	return true
}

// mustClose reports whether the connection must send no more transactions, as when it is less careful than its host is
// known by now to demand, or has had its turn while hosts find no connection, or recipients wait to be first on a
// new one. The turn is longer while hosts at its address request it, or may soon: they have little to ask each, and
// would need a connection each.
func (s *session) mustClose(l *locked, now time.Time) bool {
	if s.phase != open || s.used.Sent > 0 && (s.shown.Connection <= l.ended || s.source.AwaitingTrial(now)) ||
		l.env.Slots.Closed() || s.used.Sent >= maxSent || s.host.misleads(s, now) ||
		s.unproven.Overdue(&s.host.Queue, s.used.Transactions) {
		return true
	}
	if s.host.HasRetryFirst() {
		return s.used.Transactions >= turn
	}
	requested := l.shared.expectsRequests(s) || s.pool != nil && s.pool.requestCount() > 0 && !l.singleWaiting
	return l.waitingForConnection && (s.used.Transactions >= longTurn || s.used.Transactions >= turn && !requested)
}

// longLinger is how long an idle session waits for work where the receiver sets no limit to connections: as long as
// Postfix keeps one for the next message (smtp_connection_cache_time_limit). Jobs that run at the same time reach a
// host one after the other.
const longLinger = 2 * time.Second

// idleTimeout returns how long it pays to wait: for work the linger, for a budget a little longer.
func (s *session) idleTimeout(l *locked, d budget.Denial, now time.Time) time.Duration {
	env := l.env
	linger := env.Linger
	if l.budget.Limits.Connections == 0 { // else others may wait for its end
		linger = max(linger, longLinger)
	}
	switch {
	case l.waitingForConnection && (d.Denied || !l.shared.expectsRequests(s)), env.Slots.Scarce(),
		s.unproven.Overdue(&s.host.Queue, s.used.Transactions):
		return 0
	case d.Lease && s.addressLease:
		s.addressLease = false
		s.addressLimit.AwaitLease(l.queue, addressWaiter{l.queue, s.host}, s.priority)
		return time.Second
	case d.Lease:
		env.BudgetLog.RequestLease(&l.budget)
		return time.Second
	case !d.Denied:
		return linger
	case d.Until.IsZero() || d.Until.Sub(now) > 4*time.Second:
		l.awaitBudget(d, now)
		return 0
	}
	return d.Until.Sub(now)
}

// EndSessions lets the sessions that there are finish what they have sent. Reset resets those that have not.
func (q *Queue) EndSessions() {
	l := q.lock()
	defer l.unlock()
	l.ended = q.env.connections.Load()
	for _, s := range l.working {
		s.wakeIdle(l)
	}
}

// Reset cancels sessions, whatever they wait for: those that EndSessions has ended, those that ask for an unwanted
// probe and, if no other probe of the queue waits, also those without probes.
func (q *Queue) Reset(unwanted func(*hostqueue.Probe) bool) {
	l := q.lock()
	var cancelled, silent []*session
	needed, waiters := l.unsentCount() > 0, map[*session][]*hostqueue.Probe{}
	for _, s := range l.working {
		if s.shown.Connection <= l.ended {
			cancelled = append(cancelled, s)
			continue
		}
		waiters[s] = nil
		for _, r := range s.group.Recipients {
			if p := r.Waiter(); p != nil {
				waiters[s] = append(waiters[s], p)
			}
		}
	}
	l.unlock() // unwanted takes other locks
	for s, probes := range waiters {
		switch {
		case slices.ContainsFunc(probes, unwanted):
			cancelled = append(cancelled, s)
		case len(probes) == 0:
			silent = append(silent, s)
		default:
			needed = true
		}
	}
	if !needed {
		cancelled = append(cancelled, silent...)
	}
	q.lock()
	defer l.unlock()
	for _, s := range cancelled {
		if s.cancel == nil {
			continue // it has ended meanwhile
		}
		s.phase = reset
		s.cancel()
		if s.admission != nil {
			q.env.Gate.Expedite(s.admission)
		}
		s.wakeIdle(l)
	}
}

// unsentCount counts the probes of the queue that no session asks for now.
func (l *locked) unsentCount() int {
	n := l.probes
	for _, s := range l.working {
		for _, r := range s.group.Recipients {
			if r.Probe != nil {
				n--
			}
		}
	}
	return n
}
