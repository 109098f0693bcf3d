package readyqueue

import (
	"context"
	"net/netip"
	"time"

	"probity/prober/budget"
)

// awaitLookup queues a lookup of a host queue's host if its address is not known and a connection could be opened; the host
// queue is scheduled afterwards. It returns false if the host queue need not wait. A single call waits neither for a lookup that
// others requested nor for a free resolver: its session does the lookup.
func (q *Queue) awaitLookup(hq *hostQueue, class budget.Class, now time.Time) bool {
	switch {
	case hq.lookingUp:
		return class != budget.Single
	case !q.shared.sharesByAddress(hq) || !hq.lookupExpired(now) || q.connectDisabled(now) || now.Before(q.hold.ConnectAllowedAt()):
		return false
	case class == budget.Single && q.shared.resolvers == maxResolvers:
		return false
	}
	if n, _ := q.budget.Room(&budget.Conn{}, class, now); n == 0 {
		return false
	}
	return q.shared.queueLookup(hq)
}

// lookupExpired reports that the last lookup is too old.
func (hq *hostQueue) lookupExpired(now time.Time) bool {
	return now.Sub(hq.lookedUp) >= lookupLife
}

// queueLookup queues a lookup of a host queue's host. False if the prober stops.
func (sc *sharedConnections) queueLookup(hq *hostQueue) bool {
	if sc.resolvers < maxResolvers {
		if !sc.queue.env.Start(sc.resolveHosts) {
			return false
		}
		sc.resolvers++
	}
	hq.lookingUp = true
	sc.lookupQueue.Push(hq)
	return true
}

// resolveHosts looks hosts up until the lookup queue is empty.
func (sc *sharedConnections) resolveHosts(soft, _ context.Context) {
	q := sc.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for sc.lookupQueue.Len() > 0 {
		hq := sc.lookupQueue.Pop()
		q.mu.Unlock()
		addrs, _ := q.env.Opener.Addresses(soft, hq.Name, q.Source)
		q.mu.Lock()
		now := time.Now()
		hq.lookingUp, hq.lookedUp = false, now
		if q.hostQueues[hq.Key] == hq {
			sc.setHostAddr(hq, sc.preferredAddr(addrs))
			hq.scheduleNeeded()
			q.dispatch(now)
		}
	}
	if sc.resolvers--; sc.resolvers == 0 {
		q.dispatch(time.Now()) // idle sessions that expected requests may close now
	}
}

// preferredAddr chooses the address at which a host is asked: one where a session has received replies, else the first. The zero
// Addr if there is none.
func (sc *sharedConnections) preferredAddr(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if pool := sc.pools[a]; pool != nil && pool.healthy > 0 {
			return a
		}
	}
	if len(addrs) > 0 {
		return addrs[0]
	}
	return netip.Addr{}
}
