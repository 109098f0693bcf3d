package prober

import (
	"net/netip"
	"slices"
	"time"

	"probity/prober/budget"
)

// Customers of one provider have host names of their own, and thousands of these lead to few addresses. A connection for each
// host would mean one for nearly each address of a long list, where the receiver counts connections. So a connection to a
// provider's address serves all host queues whose hosts resolve to that address, one after the other (compare Postfix,
// CONNECTION_CACHE_README). DNS decides where a host is asked, so a reply there is as good as one on a connection of its own.
// Hosts of unknown providers share no connections: their server may not answer for all of its names alike.

// addressPool is one address of a provider, with the sessions that are connected to it. Guarded by the queue's mutex.
type addressPool struct {
	addr              netip.Addr
	sessions          int // connected, or connecting
	healthy           int // those that have had a recipient answered
	idle              []*session
	requests          [budget.NumClasses]ring[*hostQueue] // host queues without a session that have work there; some have none any more
	requestCount      int                                 // in all of them
	withdrawnRequests int                                 // of those: host queues that were removed since
	share             budget.FairShare                    // of requests of short and long jobs
	handedOverAt      time.Time                           // when a session was last handed over there
}

const (
	// lookupLife is how long the looked-up address of a host holds; the resolver caches as long as DNS allows.
	lookupLife = time.Minute
	// maxResolvers is how many hosts of a ready queue are looked up at one time; the others wait.
	maxResolvers = 64
	// requestsPerSession is how many requests may wait for each session of a pool before another connection is worth its price.
	requestsPerSession = 4
	// sharedWait is how long host queues wait while no session is handed over.
	sharedWait = 5 * time.Second
	// maxHostTurn is how many transactions a session spends on a host queue while others request it.
	maxHostTurn = 8
)

// sharesByAddress reports a host queue that may be asked on any connection to its address. The mutex is held, as in all below.
func (q *readyQueue) sharesByAddress(hq *hostQueue) bool { return q.pools != nil && !hq.reachTrial }

// setHostAddr records where a host queue will be asked, and withdraws its requests at another address.
func (q *readyQueue) setHostAddr(hq *hostQueue, a netip.Addr) {
	if hq.addr == a {
		return
	}
	if pool := q.pools[hq.addr]; pool != nil {
		for class, requested := range hq.requested {
			if requested {
				removeFrom(&pool.requests[class], hq)
				pool.requestCount--
			}
		}
		q.removePoolIfEmpty(pool)
	}
	hq.addr, hq.requested = a, [budget.NumClasses]bool{}
}

// poolAt finds or makes a pool.
func (q *readyQueue) poolAt(a netip.Addr) *addressPool {
	pool := q.pools[a]
	if pool == nil {
		pool = &addressPool{addr: a}
		q.pools[a] = pool
	}
	return pool
}

// removePoolIfEmpty removes a pool that has no session and no request.
func (q *readyQueue) removePoolIfEmpty(pool *addressPool) {
	if pool.sessions+pool.requestCount == 0 && q.pools[pool.addr] == pool {
		delete(q.pools, pool.addr)
	}
}

// poolOf is the pool of a host queue's host; nil if it has no session and no request, or while the host is looked up.
func (q *readyQueue) poolOf(hq *hostQueue) *addressPool {
	if !q.sharesByAddress(hq) || !hq.addr.IsValid() || hq.lookingUp {
		return nil
	}
	return q.pools[hq.addr]
}

// mayShareConnection reports a host queue that a connection may be handed over to; not one with recipients that must be first
// on a new one.
func (q *readyQueue) mayShareConnection(hq *hostQueue) bool {
	return q.sharesByAddress(hq) && hq.addr.IsValid() && !hq.lookingUp && !hq.hasRetryFirst()
}

// request requests the sessions at a host queue's address, if it has none of its own; an idle one comes at once.
func (q *readyQueue) request(hq *hostQueue, class budget.Class) {
	if hq.sessions > 0 || hq.requested[class] || !q.mayShareConnection(hq) || q.handOverIdle(hq, class, time.Now()) {
		return
	}
	pool := q.poolAt(hq.addr)
	hq.requested[class] = true
	pool.requests[class].push(hq)
	pool.requestCount++
}

// pop takes the oldest request of a priority.
func (pool *addressPool) pop(class budget.Class) *hostQueue {
	hq := pool.requests[class].pop()
	hq.requested[class] = false
	pool.requestCount--
	return hq
}

// withdrawRequest counts the requests of a host queue that is being removed. The pool is swept when they are more than half of
// its requests.
func (q *readyQueue) withdrawRequest(hq *hostQueue) {
	pool := q.pools[hq.addr]
	if pool == nil || hq.requested == [budget.NumClasses]bool{} {
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
	for class := range pool.requests {
		r := &pool.requests[class]
		for n := r.n; n > 0; n-- {
			if hq := r.pop(); q.hostQueues[hq.key] == hq {
				r.push(hq)
				pool.requestCount++
			} else {
				hq.requested[class] = false
			}
		}
	}
	q.removePoolIfEmpty(pool)
}

// nextHost takes the host queue that a session goes on to: one with single calls, else one of the jobs whose turn it is, unless
// a single call waits elsewhere for a connection to end. It is nil if there is no request. Hosts whose lookup has expired are
// looked up again.
func (q *readyQueue) nextHost(s *session, now time.Time) *hostQueue {
	for pool := s.pool; pool.requestCount > 0; {
		both := pool.requests[budget.ShortJob].n > 0 && pool.requests[budget.LongJob].n > 0
		class := budget.Single
		if pool.requests[budget.Single].n == 0 {
			class = pool.share.Next(both, pool.requests[budget.ShortJob].n > 0)
		}
		if !s.mayServe(class, now) || q.singleWaiting && class != budget.Single {
			return nil
		}
		switch hq := pool.pop(class); {
		case q.hostQueues[hq.key] != hq:
			pool.withdrawnRequests--
		case hq.sessions > 0 || !hq.needsSession(class, q):
		case !q.mayShareConnection(hq):
			q.scheduleNeeded(hq)
		case q.lookupExpired(hq, now):
			if !q.queueLookup(hq) {
				q.scheduleNeeded(hq)
			}
		default:
			if both && class != budget.Single {
				pool.share.Record(class, 1)
			}
			return hq
		}
	}
	return nil
}

// mayServe reports that a session may serve a priority: a connection that jobs could not have opened is left to single calls.
func (s *session) mayServe(class budget.Class, now time.Time) bool {
	p := &s.queue.budget
	return p.Limits.Connections == 0 || s.priority != budget.Single || p.Open() <= p.MaxOpen(class, now)
}

// expectsRequests reports a session that host queues at its address may soon request: hosts of the queue are being looked up,
// and no single call waits for a connection to end. Such a session lingers although host queues of other addresses find no
// connection. If it closed whenever there is no request, every few hosts found would cost a new connection where lookups take
// longer than replies.
func (s *session) expectsRequests() bool {
	return s.pool != nil && s.queue.resolvers > 0 && !s.queue.singleWaiting
}

// handOverNext hands a session over to a host queue that requests it at its address. It returns false if none does.
func (q *readyQueue) handOverNext(s *session, now time.Time) bool {
	if s.pool == nil || s.closing || s.lastTransaction {
		return false
	}
	hq := q.nextHost(s, now)
	if hq == nil {
		return false
	}
	old := s.hostQueue
	if q.handOver(s, hq, now); old.waitingCount() > 0 {
		q.dispatch(now)
	}
	return true
}

// handOver makes a session that has nothing in flight one of another host queue. Its own goroutine calls it, or a caller that
// has taken the session from the idle ones.
func (q *readyQueue) handOver(s *session, hq *hostQueue, now time.Time) {
	old := s.hostQueue
	old.sessions--
	hq.sessions++
	if s.answered {
		old.healthy--
	}
	s.hostQueue, s.answered, s.transactionsBefore, s.pool.handedOverAt = hq, false, s.used.Transactions, now
	hq.waitingSince, hq.gaveUpWaiting = time.Time{}, false
	q.singleWaiting = q.singleWaiting && hq.waiting(budget.Single) == 0
	q.scheduleNeeded(old)
}

// handOverIdle wakes an idle session at a host queue's address for that host queue. It returns false if there is none.
func (q *readyQueue) handOverIdle(hq *hostQueue, class budget.Class, now time.Time) bool {
	pool := q.poolOf(hq)
	if pool == nil || hq.hasRetryFirst() || q.lookupExpired(hq, now) {
		return false
	}
	for _, s := range slices.Backward(pool.idle) {
		if s.mayServe(class, now) {
			q.takeIdle(s)
			q.handOver(s, hq, now)
			s.wake <- struct{}{} // has room: a session is idle once
			return true
		}
	}
	return false
}

// willBeServed reports a host queue to which some session will come. A single call does not wait for that.
func (q *readyQueue) willBeServed(hq *hostQueue) bool {
	pool := q.poolOf(hq)
	return hq.sessions > 0 || pool != nil && pool.sessions > 0 && !hq.gaveUpWaiting && !hq.hasRetryFirst() && hq.waiting(budget.Single) == 0
}

// sharedWaiter is a host queue that waits for the sessions at its address, and since when.
type sharedWaiter struct {
	hostQueue *hostQueue
	since     time.Time
}

// waitForShared leaves a host queue with rows of jobs only to the sessions at its address, if it has little to ask and few wait
// with it. It returns false if the host queue should get a connection of its own.
func (q *readyQueue) waitForShared(hq *hostQueue, class budget.Class, now time.Time) bool {
	pool := q.poolOf(hq)
	switch {
	case class == budget.Single, hq.sessions > 0, hq.gaveUpWaiting, hq.hasRetryFirst():
		return false
	case pool == nil, pool.sessions == 0, pool.requestCount > requestsPerSession*pool.sessions, hq.waitingCount() > q.worthConnection():
		return false
	}
	q.addSharedWaiter(hq, class, now)
	return true
}

// addSharedWaiter has a host queue wait for the sessions at its address.
func (q *readyQueue) addSharedWaiter(hq *hostQueue, class budget.Class, now time.Time) {
	q.request(hq, class)
	if hq.waitingSince.IsZero() {
		hq.waitingSince = now
		q.sharedWaiters.push(sharedWaiter{hq, now})
	}
	q.armTimer(q.sharedWaiters.peek().since.Add(sharedWait), now)
}

// endSharedWaits ends the wait of host queues at whose address no session was handed over for sharedWait: the sessions there
// may be blocked.
func (q *readyQueue) endSharedWaits(now time.Time) {
	for q.sharedWaiters.n > 0 {
		if at := q.sharedWaiters.peek().since.Add(sharedWait); now.Before(at) {
			q.armTimer(at, now)
			return
		}
		j := q.sharedWaiters.pop()
		hq := j.hostQueue
		if !hq.waitingSince.Equal(j.since) {
			continue
		}
		hq.waitingSince = time.Time{}
		switch pool := q.poolOf(hq); {
		case hq.sessions > 0 || !hq.needsSession(budget.LongJob, q):
		case pool != nil && pool.sessions > 0 && now.Sub(pool.handedOverAt) < sharedWait:
			q.addSharedWaiter(hq, budget.LongJob, now)
		default:
			hq.gaveUpWaiting = true
			q.scheduleNeeded(hq)
		}
	}
}

// attach adds a session to the pool of an address.
func (q *readyQueue) attach(s *session, a netip.Addr) {
	if !q.sharesByAddress(s.hostQueue) || !a.IsValid() || s.pool != nil && s.pool.addr == a {
		return
	}
	q.detach(s)
	s.pool = q.poolAt(a)
	s.pool.sessions++
}

// detach removes it. Host queues that requested the last session of a pool look for a connection of their own.
func (q *readyQueue) detach(s *session) {
	pool := s.pool
	if pool == nil {
		return
	}
	s.pool = nil
	if s.progress {
		pool.healthy--
	}
	if pool.sessions--; pool.sessions > 0 {
		return
	}
	if q.pools[pool.addr] == pool {
		delete(q.pools, pool.addr)
	}
	for class := range pool.requests {
		for pool.requests[class].n > 0 {
			q.scheduleNeeded(pool.pop(budget.Class(class)))
		}
	}
}

// detachSession removes a session from its pool before QUIT, which may take a while.
func (q *readyQueue) detachSession(s *session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.pool != nil {
		q.detach(s)
		q.dispatch(time.Now())
	}
}

// hostWorks reports that another connection to this host or, if this one was dialled, to its address has received a reply to a
// recipient.
func (s *session) hostWorks(hq *hostQueue) bool {
	return hq.healthy > 0 || s.dialled && s.pool != nil && s.pool.healthy > 0
}
