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
	"probity/prober/hosthealth"
	"probity/prober/hostqueue"
	"probity/prober/source"
	"probity/store/cache"
)

// session is one connection of a ready queue to a host, and the goroutine that works on it.
type session struct {
	queue        *Queue
	hostQueue    *hostQueue      // see sharedConnections.handOver for what may change it
	priority     budget.Priority // that it was opened for
	addressLimit *addresslimit.Limit
	source       *source.Source // the queue's, or the one that reaches IPv6 hosts
	pool         *addressPool   // where it is connected to, or will be; guarded by the queue's mutex
	addr         netip.Addr     // it connects to, one of addrs
	addrs        []netip.Addr   // of its host
	dialogue     hosthealth.Dialogue
	onTrial      bool           // nothing is known of the host's dialogue
	held         hostqueue.Held // until its dialogue is confirmed
	conn         *smtp.Session
	keyer        *cache.Keyer

	used, addressUsed  budget.Conn // guarded by the queue's and the address limit's mutex
	transactionsBefore int         // transactions before it came to its host queue
	dialled            bool
	began              time.Time // when it was
	tlsFailed          bool      // TLS has failed here before
	maxRcpt            int       // the server's own limit (RFC 9422); 0 for none
	maxMail            int
	oneDomain          bool
	addressLease       bool // the address limit needs a lease

	// What it sends at one time, with its replies. The memory is reused.
	group     hostqueue.Group
	seen      []hostqueue.Answer
	delivered []bool               // by recipient: it was answered
	finished  []hostqueue.Finished // empty between two transactions

	so              hostqueue.Progress // what the connection has brought
	progress        bool               // some recipient was answered on this connection
	answered        bool               // and some of its host queue
	acceptedDomains map[string]bool

	wake chan struct{}
	// Guarded by the queue's mutex:
	cancel    context.CancelFunc // ends it at once; nil before it begins and after its end
	wasReset  bool               // it was: see Queue.Reset
	admission *admission.Ticket  // its wait at the admission gate; nil for none

	nextTrial time.Time // if its source was quarantined everywhere when it began: when the next trial may start
	closing   bool      // it fills no more transactions
	seat      admission.Seat
}

func newSession(q *Queue, hq *hostQueue, priority budget.Priority) *session {
	return &session{queue: q, so: hostqueue.Progress{Connection: q.env.connections.Add(1)}, hostQueue: hq, priority: priority, source: q.Source, tlsFailed: hq.tlsFailed, wake: make(chan struct{}, 1), keyer: q.env.Cache.Keyer(), seat: admission.Seat{Gate: q.env.Gate},
		acceptedDomains: map[string]bool{}}
}

// run connects, asks and closes; then it releases what the session held and lets the others go on.
func (s *session) run(soft, hard context.Context) {
	env, q := s.queue.env, s.queue
	hard, cut := context.WithCancel(hard)
	defer cut()
	q.mu.Lock()
	s.cancel = cut
	q.working = append(q.working, s)
	s.seat.HighLatency = q.latency.HighRTT(&q.env.NodeRTT)
	q.mu.Unlock()
	if soft.Err() == nil && s.enterGate(soft) && !env.Slots.Closed() && s.connect(hard) {
		for s.nextTransaction(soft) && s.sendTransaction(hard) {
			s.seat.Leave()
		}
		s.seat.Leave()
		q.mu.Lock()
		if s.pool != nil { // before QUIT, which may take a while
			q.shared.detach(s)
			q.dispatch(time.Now())
		}
		q.mu.Unlock()
		// QUIT, and wait for the close: an open connection would count against us at the peer.
		quitting, cancel := context.WithTimeout(hard, quitTime)
		// Answers of a first connection count if they are known to be in step, and are asked for again if not, one by one.
		confirmed := s.conn.Confirmed() || s.conn.SayQuit(quitting)
		q.mu.Lock()
		switch health, now := &q.hostHealth, time.Now(); {
		case !s.onTrial || !s.progress:
		case confirmed:
			health.ConfirmDialogue(s.hostQueue.Name)
		case s.wasReset:
			q.probes += s.held.Void(&s.hostQueue.Host, s.so.Connection, engine.EventReply, now)
		default:
			health.DoubtDialogue(s.hostQueue.Name)
			q.probes += s.held.Void(&s.hostQueue.Host, s.so.Connection, engine.EventOutOfStep, now)
		}
		q.mu.Unlock()
		env.release(q, &s.held)
		s.conn.Quit(quitting)
		cancel()
	}
	s.seat.Leave()
	now := time.Now()
	if s.addressLimit != nil {
		s.addressLimit.ConnectionClosed(now)
		s.addressLimit.Release()
	}
	q.mu.Lock()
	q.working = slices.DeleteFunc(q.working, func(other *session) bool { return other == s })
	s.cancel = nil
	if s.wasReset {
		q.mu.Unlock()
		env.DropUnwanted(q) // what it asked is in the queue again
		q.mu.Lock()
	}
	if s.dialled {
		q.budget.ConnectionClosed()
	} else {
		q.budget.CancelConnect()
	}
	out := s.hostQueue.EndConnection(s.so.Connection, now, nil)
	q.sessions--
	s.hostQueue.sessions--
	if s.answered {
		s.hostQueue.healthy--
	}
	q.waitingForConnection, q.singleWaiting = false, false
	q.shared.detach(s)
	s.hostQueue.scheduleNeeded()
	env.Slots.Release()
	q.dispatch(now)
	out = s.hostQueue.SettleUncontrolled(s.hostQueue.sessions, now, out)
	q.mu.Unlock()
	env.Finish(q, out, now)
	env.Slots.WakeWaiting(now)
}

// enterGate takes the session through the admission gate, before any work for the processor. It returns false if ctx ended
// first.
func (s *session) enterGate(ctx context.Context) bool {
	q, gate := s.queue, s.queue.env.Gate
	if s.seat.Taken() {
		return true
	}
	t := gate.Enter()
	if s.seat.Take(t == nil) {
		return true
	}
	q.mu.Lock()
	if s.hostQueue.Queued(budget.Single) > 0 {
		gate.Expedite(t)
	}
	s.hostQueue.waitingAdmission = append(s.hostQueue.waitingAdmission, t)
	s.admission = t
	if s.wasReset {
		gate.Expedite(t)
	}
	q.mu.Unlock()
	s.seat.Take(gate.Wait(ctx, t))
	q.mu.Lock()
	s.admission = nil
	s.hostQueue.waitingAdmission = slices.DeleteFunc(s.hostQueue.waitingAdmission, func(other *admission.Ticket) bool { return other == t })
	q.mu.Unlock()
	return s.seat.Taken()
}

// nextTransaction fills the next transaction; it waits a little for work or for budgets. It returns false if the session should
// end.
func (s *session) nextTransaction(ctx context.Context) bool {
	q := s.queue
	for ctx.Err() == nil && s.enterGate(ctx) {
		q.mu.Lock()
		now := time.Now()
		if s.mustClose(now) {
			s.closing = true
			if !s.wasReset && s.hostQueue.NeedsControl(s.so.Connection) {
				s.fillTransaction(now) // of the control
			}
			q.mu.Unlock()
			return len(s.group.Recipients) > 0
		}
		s.seat.HighLatency = q.latency.HighRTT(&q.env.NodeRTT)
		if s.used.Transactions-s.transactionsBefore >= maxHostTurn && s.hostQueue.Waiting(budget.Single) == 0 {
			q.shared.handOverNext(s, now)
		}
		d := s.fillTransaction(now)
		if len(s.group.Recipients) > 0 {
			q.mu.Unlock()
			return true
		}
		if !d.Denied && q.shared.handOverNext(s, now) {
			q.mu.Unlock()
			continue
		}
		wait := s.idleTimeout(d, now)
		if wait <= 0 || s.closing {
			s.closing = true
			q.mu.Unlock()
			continue
		}
		s.hostQueue.idle = append(s.hostQueue.idle, s)
		if s.pool != nil {
			s.pool.idle = append(s.pool.idle, s)
		}
		q.idleCount++
		s.hostQueue.scheduleNeeded() // a dispatch finds it idle, also for work that is worth no new connection
		q.mu.Unlock()
		s.seat.Leave()
		select {
		case <-s.wake:
			continue
		case <-time.After(wait):
		case <-ctx.Done():
		}
		q.mu.Lock()
		woken := !s.takeIdle()
		if woken {
			<-s.wake // it has just been given work
		}
		hasWork := woken || s.hostQueue.WaitingCount() > 0 || s.hostQueue.NeedsControl(s.so.Connection)
		q.mu.Unlock()
		if !hasWork {
			return false
		}
	}
	return false
}

// maxSent is how many recipients a connection carries where the receiver names no limit. Package conn bounds the bytes of their
// replies.
const (
	maxSent = 5000

	turn, longTurn = 8, 40 // transactions, while others wait for a connection
	quitTime       = 8 * time.Second
)

// wakeIdle wakes a session if it is idle.
func (s *session) wakeIdle() {
	if s.takeIdle() {
		s.wake <- struct{}{} // has room: a session is idle once
	}
}

// takeIdle removes a session from the idle ones; false if it was not idle.
func (s *session) takeIdle() bool {
	if !slices.Contains(s.hostQueue.idle, s) {
		return false
	}
	s.hostQueue.idle = without(s.hostQueue.idle, s)
	if s.pool != nil {
		s.pool.idle = without(s.pool.idle, s)
	}
	s.queue.idleCount--
	return true
}

// mustClose reports a connection that must send no more transactions, or that has had its turn while host queues find no
// connection, or recipients wait to be first on a new one. The turn is longer while host queues at its address request it, or may
// soon: they have little to ask each, and would need a connection each. The queue's mutex is held.
func (s *session) mustClose(now time.Time) bool {
	q := s.queue
	if s.closing || s.wasReset || s.used.Sent > 0 && (s.so.Connection <= q.ended || s.source.AwaitingTrial(now)) || q.env.Slots.Closed() || s.used.Sent >= maxSent || s.held.Overdue(&s.hostQueue.Host, s.used.Transactions) {
		return true
	}
	if s.hostQueue.HasRetryFirst() {
		return s.used.Transactions >= turn
	}
	requested := s.expectsRequests() || s.pool != nil && s.pool.requestCount > 0 && !q.singleWaiting
	return q.waitingForConnection && (s.used.Transactions >= longTurn || s.used.Transactions >= turn && !requested)
}

// longLinger is how long an idle session waits for work where the receiver sets no limit to connections: as long as Postfix
// keeps one for the next message (smtp_connection_cache_time_limit). Jobs that run at the same time reach a host one after the
// other.
const longLinger = 2 * time.Second

// idleTimeout is how long it pays to wait: for work the linger, for a budget a little longer.
func (s *session) idleTimeout(d budget.Denial, now time.Time) time.Duration {
	q, env := s.queue, s.queue.env
	linger := env.Linger
	if q.budget.Limits.Connections == 0 { // else others may wait for its end
		linger = max(linger, longLinger)
	}
	switch {
	case q.waitingForConnection && (d.Denied || !s.expectsRequests()), env.Slots.Scarce(), s.held.Overdue(&s.hostQueue.Host, s.used.Transactions):
		return 0
	case d.Lease && s.addressLease:
		s.addressLease = false
		s.addressLimit.AwaitLease(q, addressWaiter{q, s.hostQueue}, s.priority)
		return time.Second
	case d.Lease:
		env.BudgetLog.RequestLease(&q.budget)
		return time.Second
	case !d.Denied:
		return linger
	case d.Until.IsZero() || d.Until.Sub(now) > 4*time.Second:
		q.awaitBudget(d, now)
		return 0
	}
	return d.Until.Sub(now)
}

// EndSessions lets the sessions that there are finish what they have sent. Reset resets those that have not.
func (q *Queue) EndSessions() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = q.env.connections.Load()
	for _, s := range q.working {
		s.wakeIdle()
	}
}

// Reset cancels sessions, whatever they wait for: those that EndSessions has ended, those that ask for an unwanted probe and, if no
// other probe of the queue waits, also those without probes.
func (q *Queue) Reset(unwanted func(*hostqueue.Probe) bool) {
	q.mu.Lock()
	ended, waits, recipients := q.ended, q.probes, map[*session][]*hostqueue.Probe{}
	for _, s := range q.working {
		recipients[s] = nil
		for _, r := range s.group.Recipients {
			if r.Probe != nil {
				waits--
			}
			if p := r.Waiter(); p != nil {
				recipients[s] = append(recipients[s], p)
			}
		}
	}
	q.mu.Unlock()
	var reset, silent []*session
	for s, probes := range recipients {
		switch {
		case s.so.Connection <= ended, slices.ContainsFunc(probes, unwanted):
			reset = append(reset, s)
		case len(probes) == 0:
			silent = append(silent, s)
		default:
			waits++
		}
	}
	if waits == 0 {
		reset = append(reset, silent...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range reset {
		if s.cancel == nil {
			continue // it has ended meanwhile
		}
		s.wasReset = true
		s.cancel()
		if s.admission != nil {
			q.env.Gate.Expedite(s.admission)
		}
		s.wakeIdle()
	}
}
