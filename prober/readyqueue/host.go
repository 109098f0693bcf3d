package readyqueue

import (
	"container/list"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/hostqueue"
	"probity/prober/source"
)

// mxHost is one host of one MX set: the probes that wait for it, and the sessions that serve it. Its state follows from
// its fields; several may hold:
//
//	in the ready ring      ready               until its turn in dispatch
//	looked up              lookup.Running      until the DNS answers
//	requests a connection  requests            until a session at its address takes it
//	waits for that only    wait.Since          and no longer than maxSharedWait without one
//	needs one of its own   wait.GaveUp         until that begins
//	denied                 denial              until its address has room
//	served                 sessions > leaving  until QUIT
//	left                   leaving             until the server closes
//
// Whether it is down or misleads is known by its name (locked.hostHealth).
type mxHost struct {
	hostqueue.Queue
	in    *locked                    // the queue that it is in
	ready [budget.NumPriorities]bool // in the queue's ring of that priority

	sessions   int
	leaving    int        // of the sessions, those that send nothing more but QUIT
	healthy    int        // sessions with at least one reply to a recipient
	idle       []*session // sessions that wait for work
	tlsFailed  bool       // TLS failed here: use plain text
	reachTrial bool       // no probe waits in it: see source.Reachability

	lookup   hostqueue.Lookup
	requests [budget.NumPriorities]*list.Element // for a connection at its address, in the pool there; nil for none
	wait     hostqueue.SharedWait
	denial   *addressDenial // nil unless it is in locked.denied
}

// addressDenial says why a host starts no session: the limit of its address has no room.
type addressDenial struct {
	priority   budget.Priority // the highest that is denied; those below are too
	until      time.Time
	untilKnown bool // until is a budget's time, not maxAddressWait
}

// Of is the ready queue that has a probe; nil if it has not been added yet.
func Of(p *hostqueue.Probe) *Queue {
	if s := p.Set(); s != nil {
		return s.Owner.(owner).queue
	}
	return nil
}

// owner is what a queue is to its probes.
type owner struct{ *locked }

// Schedule implements hostqueue.Owner.
func (o owner) Schedule(of *hostqueue.Queue, priority budget.Priority) {
	o.hosts[of.Key].schedule(priority)
}

// Emptied implements hostqueue.Owner.
func (o owner) Emptied(of *hostqueue.Queue) {
	if m := o.hosts[of.Key]; m != nil && &m.Queue == of {
		m.removeIfEmpty()
	}
}

// newHost makes a host that is not in locked.hosts yet.
func (l *locked) newHost(host string, hosts []string) *mxHost {
	return &mxHost{in: l, Queue: l.waiting.NewQueue(hostqueue.HostKey(host, hosts), host)}
}

// domainOf finds or makes the queue of a domain at a host.
func (l *locked) domainOf(ev *engine.Evidence, host string) *hostqueue.Domain {
	if d := l.waiting.Domain(ev.Address.Domain(), host); d != nil {
		return d
	}
	key := hostqueue.HostKey(host, ev.Route.Hosts)
	m := l.hosts[key]
	if m == nil {
		m = l.newHost(host, ev.Route.Hosts)
		if l.hosts == nil { // of 50,000 queues, few need one at a time
			l.hosts = map[string]*mxHost{}
		}
		l.hosts[key] = m
	}
	return m.AddDomain(ev.Address.Domain())
}

// schedule puts it into the ring of hosts that may need a session.
func (m *mxHost) schedule(priority budget.Priority) {
	if priority != budget.Single && m.lookup.At.IsZero() && !m.lookup.Running && m.in.shared.sharesByAddress(m) {
		m.in.shared.queueLookup(m)
	}
	if !m.ready[priority] {
		m.ready[priority] = true
		m.in.ready[priority].Push(m)
	}
	m.in.shared.request(m, priority)
}

func (m *mxHost) removeIfEmpty() {
	l := m.in
	if m.Empty() && m.sessions == 0 && m.ready == [budget.NumPriorities]bool{} && m.denial == nil &&
		l.hosts[m.Key] == m {
		delete(l.hosts, m.Key)
		if len(l.hosts) == 0 {
			l.hosts = nil
		}
		l.shared.withdrawRequests(m)
	}
}

// served reports whether some session works at the host, or may.
func (m *mxHost) served() bool { return m.sessions > m.leaving }

// misleads reports whether a session's replies count as they come though the host has misled such a careless one.
func (m *mxHost) misleads(s *session, now time.Time) bool {
	return !s.answersUnproven && !s.dialogue.Covers(m.in.hostHealth.Dialogue(m.Name, now))
}

// target is a target for a trial at its host: its last domain.
func (m *mxHost) target() source.Target {
	return source.Target{Route: engine.Route{Fact: engine.FactMX, Key: m.in.Key.Route, Provider: m.in.Provider,
		Hosts: []string{m.Name}},
		Domain: m.LastDomain, Hosts: hostqueue.MXSet(m.Key)}
}
