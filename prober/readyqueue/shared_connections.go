package readyqueue

import (
	"container/list"
	"context"
	"net/netip"
	"slices"
	"time"

	"probity/internal/ring"
	"probity/prober/budget"
)

// Customers of one provider have host names of their own, and thousands of these lead to few addresses. A connection
// for each host would mean one for nearly each address of a long list, where the receiver counts connections. So a
// connection to a provider's address serves all hosts that resolve to that address, one after the other (compare
// Postfix, CONNECTION_CACHE_README). DNS decides where a host is asked, so a reply there is as good as one on a
// connection of its own. Hosts of unknown providers share no connections: their server may not answer for all of its
// names alike.
//
// A connection is as careful as its first host demanded. So a host that gets one command at a time takes none over: it
// opens its own, which others may have later.

// sharedConnections are the connections of a ready queue that hosts share.
type sharedConnections struct {
	in          *locked
	pools       map[netip.Addr]*addressPool // nil if hosts share no connections
	lookupQueue ring.Ring[*mxHost]          // whose hosts are to be looked up
	resolvers   int                         // goroutines that look those hosts up
	waiters     ring.Ring[sharedWaiter]     // hosts that wait for a shared connection, oldest first
}

// addressPool is one address of a provider, with the sessions that are connected to it.
type addressPool struct {
	addr     netip.Addr
	sessions int // connected, or connecting
	healthy  int // those that have had a recipient answered
	idle     []*session
	// hosts without a session that have work there; some have none any more
	requests     [budget.NumPriorities]list.List // of *mxHost
	share        budget.FairShare                // of requests of short and long jobs
	handedOverAt time.Time                       // when a session was last handed over there
}

const (
	// maxResolvers is how many hosts of a ready queue are looked up at one time; the others wait.
	maxResolvers = 64
	// requestsPerSession is how many requests may wait for each session of a pool before another connection is worth
	// its price.
	requestsPerSession = 4
	// maxSharedWait is how long hosts wait while no session is handed over.
	maxSharedWait = 5 * time.Second
	// maxHostTurn is how many transactions a session spends on a host while others request it.
	maxHostTurn = 8
)

// sharesByAddress reports whether a host may be asked on any connection to its address.
func (sc *sharedConnections) sharesByAddress(m *mxHost) bool {
	return sc.pools != nil && !m.reachTrial
}

// setHostAddr records where a host will be asked, and withdraws its requests at another address.
func (sc *sharedConnections) setHostAddr(m *mxHost, a netip.Addr) {
	if m.lookup.Addr == a {
		return
	}
	sc.withdrawRequests(m)
	m.lookup.Addr = a
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
	if pool.sessions+pool.requestCount() == 0 && sc.pools[pool.addr] == pool {
		delete(sc.pools, pool.addr)
	}
}

// poolOf is the pool of a host; nil if it has no session and no request, or while it is looked up.
func (sc *sharedConnections) poolOf(m *mxHost) *addressPool {
	if !sc.sharesByAddress(m) || !m.lookup.Addr.IsValid() || m.lookup.Running {
		return nil
	}
	return sc.pools[m.lookup.Addr]
}

// mayShareConnection reports whether a connection may be handed over to a host.
func (sc *sharedConnections) mayShareConnection(m *mxHost, now time.Time) bool {
	return sc.sharesByAddress(m) && m.lookup.Addr.IsValid() && !m.lookup.Running && !sc.needsOwn(m, now)
}

// needsOwn reports whether a host needs a connection that is opened for it: it has recipients that must be first on
// one, or gets one command at a time.
func (sc *sharedConnections) needsOwn(m *mxHost, now time.Time) bool {
	return m.HasRetryFirst() || sc.in.hostHealth.Dialogue(m.Name, now).Careful
}

// request requests the sessions at a host's address, if it has none of its own; an idle one comes at once.
func (sc *sharedConnections) request(m *mxHost, priority budget.Priority) {
	now := time.Now()
	if m.served() || m.requests[priority] != nil || !sc.mayShareConnection(m, now) ||
		sc.handOverIdle(m, priority, now) {
		return
	}
	m.requests[priority] = sc.poolAt(m.lookup.Addr).requests[priority].PushBack(m)
}

// requestCount counts the requests of all priorities.
func (pool *addressPool) requestCount() int {
	r := &pool.requests
	return r[budget.LongJob].Len() + r[budget.ShortJob].Len() + r[budget.Single].Len()
}

// pop takes the oldest request of a priority.
func (pool *addressPool) pop(priority budget.Priority) *mxHost {
	r := &pool.requests[priority]
	m := r.Remove(r.Front()).(*mxHost)
	m.requests[priority] = nil
	return m
}

// withdrawRequests withdraws the requests of a host that moves or is removed.
func (sc *sharedConnections) withdrawRequests(m *mxHost) {
	pool := sc.pools[m.lookup.Addr]
	if pool == nil {
		return
	}
	for priority, request := range m.requests {
		if request != nil {
			pool.requests[priority].Remove(request)
		}
	}
	m.requests = [budget.NumPriorities]*list.Element{}
	sc.removePoolIfEmpty(pool)
}

// nextHost takes the host that a session goes on to: one with single calls, else one of the jobs whose turn it is,
// unless a single call waits elsewhere for a connection to end. It is nil if there is no request. Hosts whose lookup
// has expired are looked up again.
func (sc *sharedConnections) nextHost(s *session, now time.Time) *mxHost {
	for pool := s.pool; pool.requestCount() > 0; {
		both := pool.requests[budget.ShortJob].Len() > 0 && pool.requests[budget.LongJob].Len() > 0
		priority := budget.Single
		if pool.requests[budget.Single].Len() == 0 {
			priority = pool.share.Next(both, pool.requests[budget.ShortJob].Len() > 0)
		}
		if !sc.mayServe(s, priority, now) || sc.in.singleWaiting && priority != budget.Single {
			return nil
		}
		switch m := pool.pop(priority); {
		case m.served() || !m.needsSession(priority):
		case !sc.mayShareConnection(m, now):
			m.scheduleNeeded()
		case m.lookup.Expired(now):
			if !sc.queueLookup(m) {
				m.scheduleNeeded()
			}
		default:
			if both && priority != budget.Single {
				pool.share.Record(priority, 1)
			}
			return m
		}
	}
	return nil
}

// mayServe reports whether a session may serve another host with a priority: a connection that jobs could not have
// opened is left to single calls, and no answer of its own host waits for the end of the connection.
func (sc *sharedConnections) mayServe(s *session, priority budget.Priority, now time.Time) bool {
	if s.answersUnproven && !s.conn.Confirmed() {
		return false
	}
	p := &sc.in.budget
	return p.Limits.Connections == 0 || s.priority != budget.Single || p.Open() <= p.MaxOpen(priority, now)
}

// expectsRequests reports whether hosts at a session's address may soon request it: some of the queue are being looked
// up, and no single call waits for a connection to end. Such a session lingers although hosts of other addresses find
// no connection: else every few hosts found would cost a new one where lookups take longer than replies.
func (sc *sharedConnections) expectsRequests(s *session) bool {
	return s.pool != nil && sc.resolvers > 0 && !sc.in.singleWaiting
}

// handOverNext hands a session over to a host that requests it at its address. It returns false if none does.
func (sc *sharedConnections) handOverNext(s *session, now time.Time) bool {
	if s.pool == nil || s.phase != open {
		return false
	}
	old, m := s.host, sc.nextHost(s, now)
	if m == nil {
		return false
	}
	sc.handOver(s, m, now)
	if old.WaitingCount() > 0 {
		sc.in.dispatch(now)
	}
	return true
}

// handOver makes a session that has nothing in flight one of another host. Its own goroutine calls it, or a caller that
// has taken the session from the idle ones.
func (sc *sharedConnections) handOver(s *session, m *mxHost, now time.Time) {
	old := s.host
	old.sessions--
	l := sc.in
	s.collectInto(l)
	old.Leave(s.shown, now)
	s.collectInto(l)
	m.sessions++
	if s.answered {
		old.healthy--
	}
	if s.answersUnproven { // each command waited: see mayServe
		if s.answered {
			l.hostHealth.ConfirmDialogue(old.Name)
		}
		s.answersUnproven = false
	}
	s.host, s.shown, s.answered = m, s.shown.AtNextHost(), false
	s.transactionsBefore, s.pool.handedOverAt = s.used.Transactions, now
	m.wait.End()
	sc.in.singleWaiting = sc.in.singleWaiting && m.Waiting(budget.Single) == 0
	old.scheduleNeeded()
}

// handOverIdle wakes an idle session at a host's address for that host. It returns false if there is none.
func (sc *sharedConnections) handOverIdle(m *mxHost, priority budget.Priority, now time.Time) bool {
	pool := sc.poolOf(m)
	if pool == nil || sc.needsOwn(m, now) || m.lookup.Expired(now) {
		return false
	}
	for _, s := range slices.Backward(pool.idle) {
		if sc.mayServe(s, priority, now) {
			s.takeIdle(sc.in)
			sc.handOver(s, m, now)
			s.wake <- struct{}{} // has room: a session is idle once
			return true
		}
	}
	return false
}

// willBeServed reports whether some session will come to a host. A single call does not wait for that.
func (sc *sharedConnections) willBeServed(m *mxHost, now time.Time) bool {
	pool := sc.poolOf(m)
	return m.served() || pool != nil && pool.sessions > 0 && !m.wait.GaveUp && !sc.needsOwn(m, now) &&
		m.Waiting(budget.Single) == 0
}

// sharedWaiter is a host that waits for the sessions at its address, and since when.
type sharedWaiter struct {
	host  *mxHost
	since time.Time
}

// wait leaves a host with rows of jobs only to the sessions at its address, if it has little to ask and few wait with
// it. It returns false if the host should get a connection of its own.
func (sc *sharedConnections) wait(m *mxHost, priority budget.Priority, now time.Time) bool {
	pool := sc.poolOf(m)
	switch {
	case priority == budget.Single, m.sessions > 0, m.wait.GaveUp, sc.needsOwn(m, now):
		return false
	case pool == nil, pool.sessions == 0, pool.requestCount() > requestsPerSession*pool.sessions,
		m.WaitingCount() > sc.in.worthConnection():
		return false
	}
	sc.addWaiter(m, priority, now)
	return true
}

// addWaiter has a host wait for the sessions at its address.
func (sc *sharedConnections) addWaiter(m *mxHost, priority budget.Priority, now time.Time) {
	sc.request(m, priority)
	if m.wait.Begin(now) {
		sc.waiters.Push(sharedWaiter{m, now})
	}
	sc.in.armTimer(sc.waiters.Peek().since.Add(maxSharedWait), now)
}

// endWaits ends the wait of hosts at whose address no session was handed over for maxSharedWait: the sessions there may
// be blocked.
func (sc *sharedConnections) endWaits(now time.Time) {
	for sc.waiters.Len() > 0 {
		if at := sc.waiters.Peek().since.Add(maxSharedWait); now.Before(at) {
			sc.in.armTimer(at, now)
			return
		}
		j := sc.waiters.Pop()
		m := j.host
		if !m.wait.Since.Equal(j.since) {
			continue
		}
		m.wait.End()
		switch pool := sc.poolOf(m); {
		case m.sessions > 0 || !m.needsSession(budget.LongJob):
		case pool != nil && pool.sessions > 0 && now.Sub(pool.handedOverAt) < maxSharedWait:
			sc.addWaiter(m, budget.LongJob, now)
		default:
			m.wait.GiveUp()
			m.scheduleNeeded()
		}
	}
}

// attach adds a session to the pool of an address.
func (sc *sharedConnections) attach(s *session, a netip.Addr) {
	if !sc.sharesByAddress(s.host) || !a.IsValid() || s.pool != nil && s.pool.addr == a {
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

// awaitLookup queues a lookup of a host if its address is not known and a connection could be opened; the host is
// scheduled afterwards. It returns false if the host need not wait. A single call waits neither for a lookup that
// others requested nor for a free resolver: its session does the lookup.
func (sc *sharedConnections) awaitLookup(m *mxHost, priority budget.Priority, now time.Time) bool {
	switch {
	case m.lookup.Running:
		return priority != budget.Single
	case !sc.sharesByAddress(m) || !m.lookup.Expired(now) || sc.in.connectDisabled(now) ||
		now.Before(sc.in.delay.ConnectAllowedAt()):
		return false
	case priority == budget.Single && sc.resolvers == maxResolvers:
		return false
	}
	if n, _ := sc.in.budget.Room(&budget.Conn{}, priority, now); n == 0 {
		return false
	}
	return sc.queueLookup(m)
}

// queueLookup queues a lookup of a host. False if the prober stops.
func (sc *sharedConnections) queueLookup(m *mxHost) bool {
	if sc.resolvers < maxResolvers {
		if !sc.in.env.Start(sc.in.queue.resolveHosts) {
			return false
		}
		sc.resolvers++
	}
	m.lookup.Running = true
	sc.lookupQueue.Push(m)
	return true
}

// resolveHosts looks hosts up until the lookup queue is empty.
func (q *Queue) resolveHosts(soft, _ context.Context) {
	l := q.lock()
	defer l.unlock()
	sc := &l.shared
	for sc.lookupQueue.Len() > 0 {
		m := sc.lookupQueue.Pop()
		l.unlock()
		addrs, _ := q.env.Opener.Addresses(soft, m.Name, q.Source)
		q.lock()
		now := time.Now()
		m.lookup.Running, m.lookup.At = false, now
		if l.hosts[m.Key] == m {
			sc.setHostAddr(m, sc.preferredAddr(addrs))
			m.scheduleNeeded()
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
