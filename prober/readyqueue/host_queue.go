package readyqueue

import (
	"net/netip"
	"strings"
	"time"

	"probity/engine"
	"probity/prober/admission"
	"probity/prober/budget"
)

// ring is a first-in-first-out queue that reuses its memory.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		grown := append(make([]T, 0, max(4, 2*r.n)), r.items[r.head:]...)
		r.items, r.head = append(grown, r.items[:r.head]...)[:cap(grown)], 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

// pop removes the oldest; the ring must not be empty.
func (r *ring[T]) pop() T {
	v := r.items[r.head]
	clear(r.items[r.head : r.head+1])
	if r.head, r.n = (r.head+1)%len(r.items), r.n-1; r.n == 0 {
		*r = ring[T]{}
	}
	return v
}

func (r *ring[T]) peek() T { return r.items[r.head] }

// moveLastToFront puts the newest before the oldest; the ring must not be empty.
func (r *ring[T]) moveLastToFront() {
	last := (r.head + r.n - 1) % len(r.items)
	r.head = (r.head + len(r.items) - 1) % len(r.items)
	r.items[r.head], r.items[last] = r.items[last], r.items[r.head] // the same place in a full ring, else the first was free
}

// removeFrom takes v out of a ring; the others keep their order.
func removeFrom[T comparable](r *ring[T], v T) {
	for n := r.n; n > 0; n-- {
		if other := r.pop(); other != v {
			r.push(other)
		}
	}
}

// domainQueue is one domain at one host: its waiting probes and its decoy.
// Guarded by the queue's mutex.
type domainQueue struct {
	domainQueueKey
	hostQueue       *hostQueue
	queues          [budget.NumClasses]probeList
	scheduled       [budget.NumClasses]bool // in the host queue's ring of that priority
	inFlight        int                     // recipients being asked, decoy included
	retryFirstCount int                     // its probes in the host queue's retryFirst
	decoy           decoy
}

// hostQueue is all domain queues of one host of one MX set: what one connection serves at a time. Guarded by the queue's mutex.
type hostQueue struct {
	queue         *Queue
	key           string
	host          string
	domain        string // of the domain queue made last
	domains       [budget.NumClasses]ring[*domainQueue]
	pendingDecoys [budget.NumClasses]ring[*domainQueue] // domain queues with a pending decoy, by decoy.ringPriority
	queued        [budget.NumClasses]int                // probes in the domain queues and in retryFirst
	retryFirst    probeList                             // probes whose connection was lost while they waited: first on the next one
	retryDecoys   [budget.NumClasses]ring[*domainQueue] // domain queues whose decoy must be tried again
	domainCount   int
	ready         [budget.NumClasses]bool // in the queue's ring of that priority

	sessions            int
	healthy             int                     // sessions with at least one reply to a recipient
	idle                []*session              // sessions that wait for work
	waitingAdmission    []*admission.Ticket     // of sessions that wait at the admission gate
	addr                netip.Addr              // of its host; the zero Addr if it has none
	lookedUp            time.Time               // when the host was looked up last
	lookingUp           bool                    // the host is being looked up
	requested           [budget.NumClasses]bool // it requests a connection at its address
	waitingSince        time.Time               // since when it waits for a shared connection
	gaveUpWaiting       bool                    // it has waited for sharedWait
	maxRecipients       int                     // most recipients of a transaction, learnt from closes; 0 for no bound
	answeredBeforeClose int                     // recipients the host answered before it closed a connection early; 0 if it has not
	oneDomain           bool                    // learnt: recipients of one transaction share their domain
	oneAtATime          bool                    // learnt: the host takes a transaction only after the last one was answered
	overLimit           bool                    // its acceptances are left unconfirmed: see replyHandler.updateSuspicion
	overWithOthers      bool                    // so they are, by recipients in flight over other routes
	overWithInFlight    bool                    // so they may be, once the recipients in flight are answered
	inFlightGroups      []inFlightGroup         // transactions in flight
	// By the queue's count of answers: a recipient sent after the acceptances up to confirmedUpTo was refused. Those after
	// lastStart are of the transaction answered last; the ones before lastRefused precede a refusal there.
	confirmedUpTo, lastStart, lastRefused uint64
	unconfirmed                           []*domainQueue // whose accepted probes wait for any refusal
	suspectDecoys                         ring[suspectDecoy]
	tlsFailed                             bool         // TLS failed here: use plain text
	reachTrial                            bool         // no probe waits in it: see source.Health
	blocked                               bool         // its address limit has no room: in readyQueue.blocked until blockedUntil
	deniedPriority                        budget.Class // the highest that is blocked
	blockedUntil                          time.Time
	untilKnown                            bool // blockedUntil is a budget's time, not maxAddressWait
}

// hostQueueKey is the key of a host queue: a connection serves one host of one MX set at a time.
func hostQueueKey(host string, hosts []string) string {
	if len(hosts) == 1 {
		return host
	}
	return host + " " + strings.Join(hosts, " ")
}

// mxSetOf is the MX set in a host queue's key.
func mxSetOf(key string) []string {
	hosts := strings.Fields(key)
	if len(hosts) > 1 {
		return hosts[1:]
	}
	return hosts
}

// domainQueueKey is the key of a domain queue in its ready queue.
type domainQueueKey struct{ domain, host string }

// domainQueueOf finds or makes the queue of a domain at a host.
func (q *Queue) domainQueueOf(ev *engine.Evidence, host string) *domainQueue {
	k := domainQueueKey{ev.Address.Domain(), host}
	if dq := q.domainQueues[k]; dq != nil {
		return dq
	}
	key := hostQueueKey(host, ev.Route.Hosts)
	hq := q.hostQueues[key]
	if hq == nil {
		hq = &hostQueue{queue: q, key: key, host: host}
		set(&q.hostQueues, key, hq)
	}
	k.domain = strings.Clone(k.domain) // it outlives the row, whose text is shared
	dq := &domainQueue{domainQueueKey: k, hostQueue: hq}
	hq.domainCount++
	hq.domain = k.domain
	set(&q.domainQueues, k, dq)
	return dq
}

// enqueue adds a probe to its domain queue, or to retryFirst if it has lost a connection.
func (q *Queue) enqueue(p *Probe, dq *domainQueue, front bool) {
	hq, class := dq.hostQueue, p.Priority
	p.domainQueue = dq
	hq.queued[class]++
	q.queued[class]++
	list := &dq.queues[class]
	if p.connectionLosses > 0 {
		list = &hq.retryFirst
		dq.retryFirstCount++
	} else if !dq.scheduled[class] {
		dq.scheduled[class] = true
		hq.domains[class].push(dq)
	}
	if front {
		list.pushFront(p)
	} else {
		list.push(p)
	}
	hq.schedule(class)
}

// schedule puts it into the ring of host queues that may need a session.
func (hq *hostQueue) schedule(class budget.Class) {
	if class != budget.Single && hq.lookedUp.IsZero() && !hq.lookingUp && hq.queue.shared.sharesByAddress(hq) {
		hq.queue.shared.queueLookup(hq)
	}
	if !hq.ready[class] {
		hq.ready[class] = true
		hq.queue.ready[class].push(hq)
	}
	hq.queue.shared.request(hq, class)
}

// dequeue removes a probe from its queue. Its domain queue stays in the ring until the ring comes to it.
func (q *Queue) dequeue(p *Probe) {
	dq := p.domainQueue
	switch p.inList {
	case &dq.hostQueue.retryFirst:
		dq.retryFirstCount--
		fallthrough
	case &dq.queues[p.Priority]:
		dq.hostQueue.queued[p.Priority]--
		q.queued[p.Priority]--
	}
	p.inList.remove(p)
}

// waiting counts the waiting probes and decoys of a priority.
func (hq *hostQueue) waiting(class budget.Class) int {
	return hq.queued[class] + hq.pendingDecoysFor(class)
}

// waitingCount counts those of all priorities.
func (hq *hostQueue) waitingCount() int {
	return hq.waiting(budget.LongJob) + hq.waiting(budget.ShortJob) + hq.waiting(budget.Single)
}

// pendingDecoysFor counts the pending decoys of a priority.
func (hq *hostQueue) pendingDecoysFor(class budget.Class) int {
	return hq.retryDecoys[class].n + hq.pendingDecoys[class].n
}

// removeIfEmpty removes it if it is not used, and with the last one its host queue.
func (dq *domainQueue) removeIfEmpty() {
	if dq.queues[budget.LongJob].n+dq.queues[budget.ShortJob].n+dq.queues[budget.Single].n+dq.decoy.waiting.n+dq.inFlight+dq.retryFirstCount > 0 ||
		dq.scheduled != [budget.NumClasses]bool{} || dq.decoy.state.busy() || dq.hostQueue.queue.domainQueues[dq.domainQueueKey] != dq {
		return
	}
	unset(&dq.hostQueue.queue.domainQueues, dq.domainQueueKey)
	dq.hostQueue.domainCount--
	dq.hostQueue.removeIfEmpty()
}

func (hq *hostQueue) removeIfEmpty() {
	q := hq.queue
	if hq.domainCount == 0 && hq.sessions == 0 && hq.ready == [budget.NumClasses]bool{} && !hq.blocked && q.hostQueues[hq.key] == hq {
		unset(&q.hostQueues, hq.key)
		q.shared.withdrawRequest(hq)
	}
}
