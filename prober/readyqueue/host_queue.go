package readyqueue

import (
	"net/netip"
	"time"

	"probity/engine"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/hostqueue"
	"probity/prober/source"
)

// hostQueue is the probes of one host of one MX set, with the connections that serve them. Guarded by the queue's mutex.
type hostQueue struct {
	hostqueue.Host
	queue *Queue
	ready [budget.NumPriorities]bool // in the queue's ring of that priority

	sessions         int
	healthy          int                        // sessions with at least one reply to a recipient
	idle             []*session                 // sessions that wait for work
	waitingAdmission []*admission.Ticket        // of sessions that wait at the admission gate
	addr             netip.Addr                 // of its host; the zero Addr if it has none
	lookedUp         time.Time                  // when the host was looked up last
	lookingUp        bool                       // the host is being looked up
	requested        [budget.NumPriorities]bool // it requests a connection at its address
	waitingSince     time.Time                  // since when it waits for a shared connection
	gaveUpWaiting    bool                       // it has waited for sharedWait
	tlsFailed        bool                       // TLS failed here: use plain text
	reachTrial       bool                       // no probe waits in it: see source.Reachability
	blocked          bool                       // its address limit has no room: in Queue.blocked until blockedUntil
	deniedPriority   budget.Priority            // the highest that is blocked
	blockedUntil     time.Time
	untilKnown       bool // blockedUntil is a budget's time, not maxAddressWait
}

// owner is what a queue is to its probes. The mutex is held in all methods.
type owner struct{ *Queue }

// Of is the ready queue that has a probe; nil if it has not been added yet.
func Of(p *hostqueue.Probe) *Queue {
	if s := p.Set(); s != nil {
		return s.Owner.(owner).Queue
	}
	return nil
}

// Advance implements hostqueue.Owner.
func (o owner) Advance(p *hostqueue.Probe, now time.Time, front bool, out []hostqueue.Finished) []hostqueue.Finished {
	return o.advance(p, now, front, out)
}

// Schedule implements hostqueue.Owner.
func (o owner) Schedule(h *hostqueue.Host, priority budget.Priority) {
	o.hostQueues[h.Key].schedule(priority)
}

// Emptied implements hostqueue.Owner.
func (o owner) Emptied(h *hostqueue.Host) {
	if hq := o.hostQueues[h.Key]; hq != nil && &hq.Host == h {
		hq.removeIfEmpty()
	}
}

// Scaled implements hostqueue.Owner.
func (o owner) Scaled(d time.Duration) time.Duration { return o.scaled(d) }

// newHostQueue makes a host queue that is not in the queue's map yet.
func (q *Queue) newHostQueue(host string, hosts []string) *hostQueue {
	return &hostQueue{queue: q, Host: q.waiting.NewHost(hostqueue.HostKey(host, hosts), host)}
}

// domainOf finds or makes the queue of a domain at a host.
func (q *Queue) domainOf(ev *engine.Evidence, host string) *hostqueue.Domain {
	if dq := q.waiting.Domain(ev.Address.Domain(), host); dq != nil {
		return dq
	}
	key := hostqueue.HostKey(host, ev.Route.Hosts)
	hq := q.hostQueues[key]
	if hq == nil {
		hq = q.newHostQueue(host, ev.Route.Hosts)
		if q.hostQueues == nil { // of 50,000 queues, few need one at a time
			q.hostQueues = map[string]*hostQueue{}
		}
		q.hostQueues[key] = hq
	}
	return hq.AddDomain(ev.Address.Domain())
}

// schedule puts it into the ring of host queues that may need a session.
func (hq *hostQueue) schedule(priority budget.Priority) {
	if priority != budget.Single && hq.lookedUp.IsZero() && !hq.lookingUp && hq.queue.shared.sharesByAddress(hq) {
		hq.queue.shared.queueLookup(hq)
	}
	if !hq.ready[priority] {
		hq.ready[priority] = true
		hq.queue.ready[priority].Push(hq)
	}
	hq.queue.shared.request(hq, priority)
}

func (hq *hostQueue) removeIfEmpty() {
	q := hq.queue
	if hq.Empty() && hq.sessions == 0 && hq.ready == [budget.NumPriorities]bool{} && !hq.blocked && q.hostQueues[hq.Key] == hq {
		delete(q.hostQueues, hq.Key)
		if len(q.hostQueues) == 0 {
			q.hostQueues = nil
		}
		q.shared.withdrawRequest(hq)
	}
}

// target is a target for a trial at its host: its last domain. The mutex is held.
func (hq *hostQueue) target() source.Target {
	return source.Target{Route: engine.Route{Fact: engine.FactMX, Key: hq.queue.Key.Route, Provider: hq.queue.Provider, Hosts: []string{hq.Name}},
		Domain: hq.LastDomain, Hosts: hostqueue.MXSet(hq.Key)}
}
