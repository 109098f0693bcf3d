package prober

import (
	"net/netip"
	"slices"
	"time"
)

// Customers of one provider have host names of their own, and thousands of these lead to few addresses. A connection for each would be
// one for nearly each address of a long list, where the receiver counts connections. So a session at an address of a provider
// asks there for all of its host queues whose hosts are found at that address, one group after the other, as Postfix does with
// connections that it keeps (CONNECTION_CACHE_README: by destination, then by address). What DNS says of a host is what decides where
// it is asked, so a reply there is as good as one on a connection of its own. Hosts of no known provider keep their connections
// apart: it is not known of them that one server answers for all of its names alike.

// addressPool is one address of a provider, and who is connected to it. Guarded by the queue's mutex.
type addressPool struct {
	addr              netip.Addr
	sessions          int // that are there, or on their way
	healthy           int // those that have had a recipient answered
	idle              []*session
	requests          [numPriorities]ring[*hostQueue] // groups without a session that have work there; some have none any more
	requestCount      int                             // in all of them
	withdrawnRequests int                             // of those: groups that the queue has forgotten
	share             fairShare                       // of calls of short and long jobs
	handedOverAt      time.Time                       // when a session went on to another host queue there
}

const (
	// lookupLife is for how long it is believed where a host was found; what the resolver keeps is kept as long as DNS allows.
	lookupLife = time.Minute
	// maxResolvers is how many hosts of a ready queue are looked up at one time; the others wait.
	maxResolvers = 64
	// requestsPerSession is how many calls may wait for each session of a pool before another connection is worth its price.
	requestsPerSession = 4
	// sharedWait is for how long they wait where no session goes on from one to another.
	sharedWait = 5 * time.Second
	// maxHostTurn is how many transactions a session spends on a group while others call.
	maxHostTurn = 8
)

// sharesByAddress reports a host queue that may be asked on whatever connection there is to its address. The mutex is held, as in all below.
func (q *readyQueue) sharesByAddress(hq *hostQueue) bool { return q.pools != nil && !hq.reachTrial }

// setHostAddr notes where a host queue will be asked. Its calls at another address are over.
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
	hq.addr, hq.requested = a, [numPriorities]bool{}
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

// removePoolIfEmpty forgets an address that has no session and no call.
func (q *readyQueue) removePoolIfEmpty(pool *addressPool) {
	if pool.sessions+pool.requestCount == 0 && q.pools[pool.addr] == pool {
		delete(q.pools, pool.addr)
	}
}

// poolOf is the pool of a host queue's host; nil where there is no session and no call, or while the host is looked up.
func (q *readyQueue) poolOf(hq *hostQueue) *addressPool {
	if !q.sharesByAddress(hq) || !hq.addr.IsValid() || hq.lookingUp {
		return nil
	}
	return q.pools[hq.addr]
}

// mayShareConnection reports a host queue that a connection may be taken to: some of it had better be first on a new one.
func (q *readyQueue) mayShareConnection(hq *hostQueue) bool {
	return q.sharesByAddress(hq) && hq.addr.IsValid() && !hq.lookingUp && !hq.hasRetryFirst()
}

// request has the sessions at a host queue's address find it, if none is its own; one that waits for more comes at once.
func (q *readyQueue) request(hq *hostQueue, class priority) {
	if hq.sessions > 0 || hq.requested[class] || !q.mayShareConnection(hq) || q.handOverIdle(hq, class, time.Now()) {
		return
	}
	pool := q.poolAt(hq.addr)
	hq.requested[class] = true
	pool.requests[class].push(hq)
	pool.requestCount++
}

// pop takes the call of a priority that came first.
func (pool *addressPool) pop(class priority) *hostQueue {
	hq := pool.requests[class].pop()
	hq.requested[class] = false
	pool.requestCount--
	return hq
}

// withdrawRequest notes that the queue forgets a host queue that may call. The pool is swept when it holds more of those than of others.
func (q *readyQueue) withdrawRequest(hq *hostQueue) {
	pool := q.pools[hq.addr]
	if pool == nil || hq.requested == [numPriorities]bool{} {
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

// nextHost takes the group to which a session may go on: of singles, else of those jobs whose turn it is, unless a single waits elsewhere
// for a connection to end. Nil when none calls. Those whose host may have moved are looked up.
func (q *readyQueue) nextHost(s *session, now time.Time) *hostQueue {
	for pool := s.pool; pool.requestCount > 0; {
		both := pool.requests[short].n > 0 && pool.requests[bulk].n > 0
		class := single
		if pool.requests[single].n == 0 {
			class = pool.share.next(both, pool.requests[short].n > 0)
		}
		if !s.mayServe(class, now) || q.singleWaiting && class != single {
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
			if both && class != single {
				pool.share.record(class, 1)
			}
			return hq
		}
	}
	return nil
}

// mayServe reports that a session may go to somebody's group: one that jobs could not have opened is left to singles.
func (s *session) mayServe(class priority, now time.Time) bool {
	p := &s.queue.budget
	return p.limits.Connections == 0 || s.priority != single || p.openConns <= p.maxOpen(class, now)
}

// expectsRequests reports a session at whose address groups may soon call: hosts of the queue are being looked up, and no single waits for
// a connection to end. Such a session lingers although host queues of other addresses find no connection. Were it closed in each moment in
// which nothing calls, then wherever look-ups take longer than replies, each few of the hosts found would cost a new connection.
func (s *session) expectsRequests() bool {
	return s.pool != nil && s.queue.resolvers > 0 && !s.queue.singleWaiting
}

// handOverNext takes a session to a host queue that calls at its address. False when none does.
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

// handOver makes a session that has nothing under way one of another host queue. Its own goroutine does so, or who has taken it from those
// that are idle.
func (q *readyQueue) handOver(s *session, hq *hostQueue, now time.Time) {
	old := s.hostQueue
	old.sessions--
	hq.sessions++
	if s.answered {
		old.healthy--
	}
	s.hostQueue, s.answered, s.transactionsBefore, s.pool.handedOverAt = hq, false, s.used.transactions, now
	hq.waitingSince, hq.gaveUpWaiting = time.Time{}, false
	q.singleWaiting = q.singleWaiting && !hq.singleWaits()
	q.scheduleNeeded(old)
}

// handOverIdle wakes a session that waits for more at a host queue's address, for that group. False when none does.
func (q *readyQueue) handOverIdle(hq *hostQueue, class priority, now time.Time) bool {
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

// willBeServed reports a host queue to which some session will come. A single does not wait for that.
func (q *readyQueue) willBeServed(hq *hostQueue) bool {
	pool := q.poolOf(hq)
	return hq.sessions > 0 || pool != nil && pool.sessions > 0 && !hq.gaveUpWaiting && !hq.hasRetryFirst() && !hq.singleWaits()
}

// sharedWaiter is a group that waits for the sessions at its address, and since when.
type sharedWaiter struct {
	hostQueue *hostQueue
	since     time.Time
}

// waitForShared leaves a host queue with rows of jobs only to the sessions at its address, where it has little to ask and few wait with it. False where it had
// better get a connection of its own.
func (q *readyQueue) waitForShared(hq *hostQueue, class priority, now time.Time) bool {
	pool := q.poolOf(hq)
	switch {
	case class == single, hq.sessions > 0, hq.gaveUpWaiting, hq.hasRetryFirst():
		return false
	case pool == nil, pool.sessions == 0, pool.requestCount > requestsPerSession*pool.sessions, hq.waitingCount() > q.worthConnection():
		return false
	}
	q.addSharedWaiter(hq, class, now)
	return true
}

// addSharedWaiter has a host queue wait for the sessions at its address.
func (q *readyQueue) addSharedWaiter(hq *hostQueue, class priority, now time.Time) {
	q.request(hq, class)
	if hq.waitingSince.IsZero() {
		hq.waitingSince = now
		q.sharedWaiters.push(sharedWaiter{hq, now})
	}
	q.armTimer(q.sharedWaiters.peek().since.Add(sharedWait), now)
}

// endSharedWaits ends the wait of groups at whose address no session moves on any more: those that are there may be held up for long.
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
		case hq.sessions > 0 || !hq.needsSession(bulk, q):
		case pool != nil && pool.sessions > 0 && now.Sub(pool.handedOverAt) < sharedWait:
			q.addSharedWaiter(hq, bulk, now)
		default:
			hq.gaveUpWaiting = true
			q.scheduleNeeded(hq)
		}
	}
}

// attach books a session at an address.
func (q *readyQueue) attach(s *session, a netip.Addr) {
	if !q.sharesByAddress(s.hostQueue) || !a.IsValid() || s.pool != nil && s.pool.addr == a {
		return
	}
	q.detach(s)
	s.pool = q.poolAt(a)
	s.pool.sessions++
}

// detach ends it. Who called in vain looks for a connection of its own.
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
			q.scheduleNeeded(pool.pop(priority(class)))
		}
	}
}

// detachSession ends a session's part at its address, before it says goodbye: that may take a while.
func (q *readyQueue) detachSession(s *session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.pool != nil {
		q.detach(s)
		q.dispatch(time.Now())
	}
}

// noteAnswered notes that a recipient was answered.
func (s *session) noteAnswered() {
	if !s.answered {
		s.answered = true
		s.hostQueue.healthy++
	}
	if !s.progress {
		s.progress = true
		if s.pool != nil {
			s.pool.healthy++
		}
	}
}

// hostWorks reports a host queue whose connections work: somebody is connected who was answered by its host or, where this session came to
// its address in vain, by others there.
func (s *session) hostWorks(hq *hostQueue) bool {
	return hq.healthy > 0 || s.dialled && s.pool != nil && s.pool.healthy > 0
}
