package readyqueue

import (
	"context"
	"net/netip"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/budget"
	"probity/prober/source"
)

// awaitLookup queues a lookup of a host queue's host if its address is not known and a connection could be opened; the host
// queue is scheduled afterwards. It returns false if the host queue need not wait. A single call waits neither for a lookup that
// others requested nor for a free resolver: its session does the lookup.
func (q *Queue) awaitLookup(hq *hostQueue, class budget.Class, now time.Time) bool {
	switch {
	case hq.lookingUp:
		return class != budget.Single
	case !q.shared.sharesByAddress(hq) || !hq.lookupExpired(now) || q.connectDisabled(now) || now.Before(q.connectAllowedAt()):
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
		addrs, _ := q.addresses(soft, hq.Name)
		q.mu.Lock()
		now := time.Now()
		hq.lookingUp, hq.lookedUp = false, now
		if q.hostQueues[hq.Key] == hq {
			sc.setHostAddr(hq, sc.preferredAddr(addrs))
			q.scheduleNeeded(hq)
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

// addresses returns a host's addresses that this node may and can connect to, in DNS order. The event says why there are none.
func (q *Queue) addresses(ctx context.Context, host string) ([]netip.Addr, engine.Event) {
	addrs, fact := q.env.Resolver.Addrs(ctx, host, q.env.IPv6 != nil)
	switch fact {
	case engine.FactServFail, engine.FactDNSTimeout, engine.FactUnasked:
		return nil, engine.EventHostServFail
	}
	event := engine.EventNoAddress
	allowed := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		class := smtp.ClassOf(a)
		switch {
		case class == smtp.Bogus, class == smtp.Private && !q.env.AllowPrivate:
			if event == engine.EventNoAddress {
				event = engine.EventRefusedHost
			}
		case q.sourceFor(a.Unmap()) != nil:
			allowed = append(allowed, a.Unmap())
		default:
			event = engine.EventNoEgress
		}
	}
	if len(allowed) > 0 {
		event = engine.EventReply
	}
	return allowed, event
}

// sourceFor is the source of this node that can connect to an address for the queue; nil if there is none.
func (q *Queue) sourceFor(a netip.Addr) *source.Source {
	if a.Is4() != q.Source.ReachesIPv6() {
		return q.Source
	}
	if ipv6 := q.env.IPv6; a.Is6() && ipv6 != nil {
		return ipv6
	}
	return nil
}
