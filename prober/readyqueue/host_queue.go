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

// hostQueue is the probes of one host of one MX set, with the connections that serve them.
type hostQueue struct {
	hostqueue.Host
	in    *locked                    // the queue that it is in
	ready [budget.NumPriorities]bool // in the queue's ring of that priority

	sessions         int
	healthy          int                 // sessions with at least one reply to a recipient
	idle             []*session          // sessions that wait for work
	waitingAdmission []*admission.Ticket // of sessions that wait at the admission gate
	tlsFailed        bool                // TLS failed here: use plain text
	reachTrial       bool                // no probe waits in it: see source.Reachability

	lookup    hostLookup
	requested [budget.NumPriorities]bool // it requests a connection at its address
	wait      sharedWait
	denial    *addressDenial // nil unless it is in locked.denied
}

// hostLookup is where a host is asked, and how that is known.
type hostLookup struct {
	addr    netip.Addr // the zero Addr if it has none
	at      time.Time  // of the last lookup; zero before the first
	running bool
}

// expired reports whether the last lookup is too old.
func (hl *hostLookup) expired(now time.Time) bool { return now.Sub(hl.at) >= lookupLife }

// sharedWait is a host queue's wait for one of the sessions at its address: it has not begun, lasts, or was given up.
type sharedWait struct {
	since  time.Time // zero unless it lasts
	gaveUp bool      // no session came: the host queue needs a connection of its own
}

// begin returns false if the wait lasts already.
func (sw *sharedWait) begin(now time.Time) bool {
	if !sw.since.IsZero() {
		return false
	}
	*sw = sharedWait{since: now}
	return true
}

func (sw *sharedWait) giveUp() { *sw = sharedWait{gaveUp: true} }

// end ends the wait, whatever became of it: a session has come, or nothing waits for one.
func (sw *sharedWait) end() { *sw = sharedWait{} }

// addressDenial says why a host queue starts no session: the limit of its address has no room.
type addressDenial struct {
	priority   budget.Priority // the highest that is denied; those below are too
	until      time.Time
	untilKnown bool // until is a budget's time, not maxAddressWait
}

// owner is what a queue is to its probes.
type owner struct{ *locked }

// Of is the ready queue that has a probe; nil if it has not been added yet.
func Of(p *hostqueue.Probe) *Queue {
	if s := p.Set(); s != nil {
		return s.Owner.(owner).queue
	}
	return nil
}

// Advance implements hostqueue.Owner.
func (o owner) Advance(p *hostqueue.Probe, now time.Time, at hostqueue.Place,
	out []hostqueue.Finished) []hostqueue.Finished {
	return o.advance(p, now, at, out)
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
func (l *locked) newHostQueue(host string, hosts []string) *hostQueue {
	return &hostQueue{in: l, Host: l.waiting.NewHost(hostqueue.HostKey(host, hosts), host)}
}

// domainOf finds or makes the queue of a domain at a host.
func (l *locked) domainOf(ev *engine.Evidence, host string) *hostqueue.Domain {
	if dq := l.waiting.Domain(ev.Address.Domain(), host); dq != nil {
		return dq
	}
	key := hostqueue.HostKey(host, ev.Route.Hosts)
	hq := l.hostQueues[key]
	if hq == nil {
		hq = l.newHostQueue(host, ev.Route.Hosts)
		if l.hostQueues == nil { // of 50,000 queues, few need one at a time
			l.hostQueues = map[string]*hostQueue{}
		}
		l.hostQueues[key] = hq
	}
	return hq.AddDomain(ev.Address.Domain())
}

// schedule puts it into the ring of host queues that may need a session.
func (hq *hostQueue) schedule(priority budget.Priority) {
	if priority != budget.Single && hq.lookup.at.IsZero() && !hq.lookup.running && hq.in.shared.sharesByAddress(hq) {
		hq.in.shared.queueLookup(hq)
	}
	if !hq.ready[priority] {
		hq.ready[priority] = true
		hq.in.ready[priority].Push(hq)
	}
	hq.in.shared.request(hq, priority)
}

func (hq *hostQueue) removeIfEmpty() {
	l := hq.in
	if hq.Empty() && hq.sessions == 0 && hq.ready == [budget.NumPriorities]bool{} && hq.denial == nil &&
		l.hostQueues[hq.Key] == hq {
		delete(l.hostQueues, hq.Key)
		if len(l.hostQueues) == 0 {
			l.hostQueues = nil
		}
		l.shared.withdrawRequest(hq)
	}
}

// target is a target for a trial at its host: its last domain.
func (hq *hostQueue) target() source.Target {
	return source.Target{Route: engine.Route{Fact: engine.FactMX, Key: hq.in.Key.Route, Provider: hq.in.Provider,
		Hosts: []string{hq.Name}},
		Domain: hq.LastDomain, Hosts: hostqueue.MXSet(hq.Key)}
}
