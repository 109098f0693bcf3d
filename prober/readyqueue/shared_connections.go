package readyqueue

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"probity/internal/ring"
	"probity/prober/budget"
)

// Customers of one provider have host names of their own, and thousands of these lead to few addresses. A connection
// for each host would mean one for nearly each address of a long list, where the receiver counts connections. So a
// connection to a provider's address serves all host queues whose hosts resolve to that address, one after the other
// (compare Postfix, CONNECTION_CACHE_README). DNS decides where a host is asked, so a reply there is as good as one on
// a connection of its own. Hosts of unknown providers share no connections: their server may not answer for all of its
// names alike.

// sharedConnections are the connections of a ready queue that host queues share.
type sharedConnections struct {
	in          *locked
	pools       map[netip.Addr]*addressPool // nil if hosts share no connections
	lookupQueue ring.Ring[*hostQueue]       // whose hosts are to be looked up
	resolvers   int                         // goroutines that look those hosts up
	waiters     ring.Ring[sharedWaiter]     // host queues that wait for a shared connection, oldest first
}

// addressPool is one address of a provider, with the sessions that are connected to it.
type addressPool struct {
	addr     netip.Addr
	sessions int // connected, or connecting
	healthy  int // those that have had a recipient answered
	idle     []*session
	// host queues without a session that have work there; some have none any more
	requests          [budget.NumPriorities]ring.Ring[*hostQueue]
	requestCount      int              // in all of them
	withdrawnRequests int              // of those: host queues that were removed since
	share             budget.FairShare // of requests of short and long jobs
	handedOverAt      time.Time        // when a session was last handed over there
}

const (
	// lookupLife is how long the looked-up address of a host holds; the resolver caches as long as DNS allows.
	lookupLife = time.Minute
	// maxResolvers is how many hosts of a ready queue are looked up at one time; the others wait.
	maxResolvers = 64
	// requestsPerSession is how many requests may wait for each session of a pool before another connection is worth
	// its price.
	requestsPerSession = 4
	// maxSharedWait is how long host queues wait while no session is handed over.
	maxSharedWait = 5 * time.Second
	// maxHostTurn is how many transactions a session spends on a host queue while others request it.
	maxHostTurn = 8
)

// sharesByAddress reports whether hq may be asked on any connection to its address.
func (sc *sharedConnections) sharesByAddress(hq *hostQueue) bool {
	return sc.pools != nil && !hq.reachTrial
}

// setHostAddr records where a host queue will be asked, and withdraws its requests at another address.
func (sc *sharedConnections) setHostAddr(hq *hostQueue, a netip.Addr) {
	if hq.lookup.addr == a {
		return
	}
	if pool := sc.pools[hq.lookup.addr]; pool != nil {
		for priority, requested := range hq.requested {
			if requested {
				ring.Remove(&pool.requests[priority], hq)
				pool.requestCount--
			}
		}
		sc.removePoolIfEmpty(pool)
	}
	hq.lookup.addr, hq.requested = a, [budget.NumPriorities]bool{}
}

// poolAt finds or makes a pool.
func (sc *sharedConnections) poolAt(a netip.Addr) *addressPool {
	pool := sc.pools[a]
	if pool == nil {
		pool = &addressPool{addr: a}
		sc.pools[a] = pool
	}
	return pool
}

// removePoolIfEmpty removes a pool that has no session and no request.
func (sc *sharedConnections) removePoolIfEmpty(pool *addressPool) {
	if pool.sessions+pool.requestCount == 0 && sc.pools[pool.addr] == pool {
		delete(sc.pools, pool.addr)
	}
}

// poolOf is the pool of a host queue's host; nil if it has no session and no request, or while the host is looked up.
func (sc *sharedConnections) poolOf(hq *hostQueue) *addressPool {
	if !sc.sharesByAddress(hq) || !hq.lookup.addr.IsValid() || hq.lookup.running {
		return nil
	}
	return sc.pools[hq.lookup.addr]
}

// mayShareConnection reports whether a connection may be handed over to a host queue: it has no recipients that must be
// first on a new one.
func (sc *sharedConnections) mayShareConnection(hq *hostQueue) bool {
	return sc.sharesByAddress(hq) && hq.lookup.addr.IsValid() && !hq.lookup.running && !hq.HasRetryFirst()
}

// request requests the sessions at a host queue's address, if it has none of its own; an idle one comes at once.
func (sc *sharedConnections) request(hq *hostQueue, priority budget.Priority) {
	if hq.sessions > 0 || hq.requested[priority] || !sc.mayShareConnection(hq) ||
		sc.handOverIdle(hq, priority, time.Now()) {
		return
	}
	pool := sc.poolAt(hq.lookup.addr)
	hq.requested[priority] = true
	pool.requests[priority].Push(hq)
	pool.requestCount++
}

// pop takes the oldest request of a priority.
func (pool *addressPool) pop(priority budget.Priority) *hostQueue {
	hq := pool.requests[priority].Pop()
	hq.requested[priority] = false
	pool.requestCount--
	return hq
}

// withdrawRequest counts the requests of a host queue that is being removed. The pool is swept when they are more than
// half of its requests.
func (sc *sharedConnections) withdrawRequest(hq *hostQueue) {
	pool := sc.pools[hq.lookup.addr]
	if pool == nil || hq.requested == [budget.NumPriorities]bool{} {
		return
	}
	for _, requested := range hq.requested {
		if requested {
			pool.withdrawnRequests++
		}
	}
	if 2*pool.withdrawnRequests <= pool.requestCount {
		return
	}
	pool.withdrawnRequests, pool.requestCount = 0, 0
	for priority := range pool.requests {
		r := &pool.requests[priority]
		for n := r.Len(); n > 0; n-- {
			if hq := r.Pop(); sc.in.hostQueues[hq.Key] == hq {
				r.Push(hq)
				pool.requestCount++
			} else {
				hq.requested[priority] = false
			}
		}
	}
	sc.removePoolIfEmpty(pool)
}

// nextHost takes the host queue that a session goes on to: one with single calls, else one of the jobs whose turn it
// is, unless a single call waits elsewhere for a connection to end. It is nil if there is no request. Hosts whose
// lookup has expired are looked up again.
func (sc *sharedConnections) nextHost(s *session, now time.Time) *hostQueue {
	for pool := s.pool; pool.requestCount > 0; {
		both := pool.requests[budget.ShortJob].Len() > 0 && pool.requests[budget.LongJob].Len() > 0
		priority := budget.Single
		if pool.requests[budget.Single].Len() == 0 {
			priority = pool.share.Next(both, pool.requests[budget.ShortJob].Len() > 0)
		}
		if !sc.mayServe(s, priority, now) || sc.in.singleWaiting && priority != budget.Single {
			return nil
		}
		switch hq := pool.pop(priority); {
		case sc.in.hostQueues[hq.Key] != hq:
			pool.withdrawnRequests--
		case hq.sessions > 0 || !hq.needsSession(priority):
		case !sc.mayShareConnection(hq):
			hq.scheduleNeeded()
		case hq.lookup.expired(now):
			if !sc.queueLookup(hq) {
				hq.scheduleNeeded()
			}
		default:
			if both && priority != budget.Single {
				pool.share.Record(priority, 1)
			}
			return hq
		}
	}
	return nil
}

// mayServe reports whether a session may serve a priority: a connection that jobs could not have opened is left to
// single calls.
func (sc *sharedConnections) mayServe(s *session, priority budget.Priority, now time.Time) bool {
	p := &sc.in.budget
	return p.Limits.Connections == 0 || s.priority != budget.Single || p.Open() <= p.MaxOpen(priority, now)
}

// expectsRequests reports whether host queues at a session's address may soon request it: hosts of the queue are being
// looked up, and no single call waits for a connection to end. Such a session lingers although host queues of other
// addresses find no connection: else every few hosts found would cost a new one where lookups take longer than replies.
func (sc *sharedConnections) expectsRequests(s *session) bool {
	return s.pool != nil && sc.resolvers > 0 && !sc.in.singleWaiting
}

// handOverNext hands a session over to a host queue that requests it at its address. It returns false if none does.
func (sc *sharedConnections) handOverNext(s *session, now time.Time) bool {
	if s.pool == nil || s.closing {
		return false
	}
	old, hq := s.hostQueue, sc.nextHost(s, now)
	if hq == nil {
		return false
	}
	sc.handOver(s, hq, now)
	if old.WaitingCount() > 0 {
		sc.in.dispatch(now)
	}
	return true
}

// handOver makes a session that has nothing in flight one of another host queue. Its own goroutine calls it, or a
// caller that has taken the session from the idle ones.
func (sc *sharedConnections) handOver(s *session, hq *hostQueue, now time.Time) {
	old := s.hostQueue
	old.Carry(s.so.Connection)
	old.sessions--
	s.held.Finished = old.SettleUncontrolled(old.sessions, now, s.held.Finished)
	hq.sessions++
	if s.answered {
		old.healthy--
	}
	s.hostQueue, s.answered = hq, false
	s.transactionsBefore, s.pool.handedOverAt = s.used.Transactions, now
	hq.wait.end()
	sc.in.singleWaiting = sc.in.singleWaiting && hq.Waiting(budget.Single) == 0
	old.scheduleNeeded()
}

// handOverIdle wakes an idle session at a host queue's address for that host queue. It returns false if there is none.
func (sc *sharedConnections) handOverIdle(hq *hostQueue, priority budget.Priority, now time.Time) bool {
	pool := sc.poolOf(hq)
	if pool == nil || hq.HasRetryFirst() || hq.lookup.expired(now) {
		return false
	}
	for _, s := range slices.Backward(pool.idle) {
		if sc.mayServe(s, priority, now) {
			s.takeIdle(sc.in)
			sc.handOver(s, hq, now)
			s.wake <- struct{}{} // has room: a session is idle once
			return true
		}
	}
	return false
}

// willBeServed reports whether hq is a host queue to which some session will come. A single call does not wait for
// that.
func (sc *sharedConnections) willBeServed(hq *hostQueue) bool {
	pool := sc.poolOf(hq)
	return hq.sessions > 0 || pool != nil && pool.sessions > 0 && !hq.wait.gaveUp && !hq.HasRetryFirst() &&
		hq.Waiting(budget.Single) == 0
}

// sharedWaiter is a host queue that waits for the sessions at its address, and since when.
type sharedWaiter struct {
	hostQueue *hostQueue
	since     time.Time
}

// wait leaves a host queue with rows of jobs only to the sessions at its address, if it has little to ask and few wait
// with it. It returns false if the host queue should get a connection of its own.
func (sc *sharedConnections) wait(hq *hostQueue, priority budget.Priority, now time.Time) bool {
	pool := sc.poolOf(hq)
	switch {
	case priority == budget.Single, hq.sessions > 0, hq.wait.gaveUp, hq.HasRetryFirst():
		return false
	case pool == nil, pool.sessions == 0, pool.requestCount > requestsPerSession*pool.sessions,
		hq.WaitingCount() > sc.in.worthConnection():
		return false
	}
	sc.addWaiter(hq, priority, now)
	return true
}

// addWaiter has a host queue wait for the sessions at its address.
func (sc *sharedConnections) addWaiter(hq *hostQueue, priority budget.Priority, now time.Time) {
	sc.request(hq, priority)
	if hq.wait.begin(now) {
		sc.waiters.Push(sharedWaiter{hq, now})
	}
	sc.in.armTimer(sc.waiters.Peek().since.Add(maxSharedWait), now)
}

// endWaits ends the wait of host queues at whose address no session was handed over for maxSharedWait: the sessions
// there may be blocked.
func (sc *sharedConnections) endWaits(now time.Time) {
	for sc.waiters.Len() > 0 {
		if at := sc.waiters.Peek().since.Add(maxSharedWait); now.Before(at) {
			sc.in.armTimer(at, now)
			return
		}
		j := sc.waiters.Pop()
		hq := j.hostQueue
		if !hq.wait.since.Equal(j.since) {
			continue
		}
		hq.wait.end()
		switch pool := sc.poolOf(hq); {
		case hq.sessions > 0 || !hq.needsSession(budget.LongJob):
		case pool != nil && pool.sessions > 0 && now.Sub(pool.handedOverAt) < maxSharedWait:
			sc.addWaiter(hq, budget.LongJob, now)
		default:
			hq.wait.giveUp()
			hq.scheduleNeeded()
		}
	}
}

// attach adds a session to the pool of an address.
func (sc *sharedConnections) attach(s *session, a netip.Addr) {
	if !sc.sharesByAddress(s.hostQueue) || !a.IsValid() || s.pool != nil && s.pool.addr == a {
		return
	}
	sc.detach(s)
	s.pool = sc.poolAt(a)
	s.pool.sessions++
}

// detach removes it. Host queues that requested the last session of a pool look for a connection of their own.
func (sc *sharedConnections) detach(s *session) {
	pool := s.pool
	if pool == nil {
		return
	}
	s.pool = nil
	if s.progress {
		pool.healthy--
	}
	pool.sessions--
	if pool.sessions > 0 {
		return
	}
	if sc.pools[pool.addr] == pool {
		delete(sc.pools, pool.addr)
	}
	for priority := range pool.requests {
		for pool.requests[priority].Len() > 0 {
			pool.pop(budget.Priority(priority)).scheduleNeeded()
		}
	}
}

// awaitLookup queues a lookup of a host queue's host if its address is not known and a connection could be opened; the
// host queue is scheduled afterwards. It returns false if the host queue need not wait. A single call waits neither for
// a lookup that others requested nor for a free resolver: its session does the lookup.
func (sc *sharedConnections) awaitLookup(hq *hostQueue, priority budget.Priority, now time.Time) bool {
	switch {
	case hq.lookup.running:
		return priority != budget.Single
	case !sc.sharesByAddress(hq) || !hq.lookup.expired(now) || sc.in.connectDisabled(now) ||
		now.Before(sc.in.hold.ConnectAllowedAt()):
		return false
	case priority == budget.Single && sc.resolvers == maxResolvers:
		return false
	}
	if n, _ := sc.in.budget.Room(&budget.Conn{}, priority, now); n == 0 {
		return false
	}
	return sc.queueLookup(hq)
}

// queueLookup queues a lookup of a host queue's host. False if the prober stops.
func (sc *sharedConnections) queueLookup(hq *hostQueue) bool {
	if sc.resolvers < maxResolvers {
		if !sc.in.env.Start(sc.in.queue.resolveHosts) {
			return false
		}
		sc.resolvers++
	}
	hq.lookup.running = true
	sc.lookupQueue.Push(hq)
	return true
}

// resolveHosts looks hosts up until the lookup queue is empty.
func (q *Queue) resolveHosts(soft, _ context.Context) {
	l := q.lock()
	defer l.unlock()
	sc := &l.shared
	for sc.lookupQueue.Len() > 0 {
		hq := sc.lookupQueue.Pop()
		l.unlock()
		addrs, _ := q.env.Opener.Addresses(soft, hq.Name, q.Source)
		q.lock()
		now := time.Now()
		hq.lookup.running, hq.lookup.at = false, now
		if l.hostQueues[hq.Key] == hq {
			sc.setHostAddr(hq, sc.preferredAddr(addrs))
			hq.scheduleNeeded()
			l.dispatch(now)
		}
	}
	sc.resolvers--
	if sc.resolvers == 0 {
		l.dispatch(time.Now()) // idle sessions that expected requests may close now
	}
}

// preferredAddr chooses the address at which a host is asked: one where a session has received replies, else the next
// in turn. The zero Addr if there is none.
func (sc *sharedConnections) preferredAddr(addrs []netip.Addr) netip.Addr {
	health, now := &sc.in.hostHealth, time.Now()
	for _, a := range addrs {
		if pool := sc.pools[a]; pool != nil && pool.healthy > 0 && !health.AddressFailed(a, now) {
			return a
		}
	}
	return health.NextAddress(addrs, now)
}
