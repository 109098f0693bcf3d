package hostqueue

import (
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/internal/ring"
	"probity/prober/budget"
)

// Place is where a probe goes in the queue of its priority.
type Place bool

const (
	Last  Place = false
	First Place = true // it was sent before, without a reply of its own
)

// Owner is the ready queue that a Set belongs to. Its lock is held in all methods.
type Owner interface {
	// Advance moves a probe as far as it gets without asking a host.
	Advance(p *Probe, now time.Time, at Place)
	// Schedule is called when a host has more work of a priority.
	Schedule(q *Queue, priority budget.Priority)
	// Emptied is called when a host has no domain any more.
	Emptied(q *Queue)
	// Scaled returns how long a wait lasts under the current provider table.
	Scaled(d time.Duration) time.Duration
}

// Finished is a probe that leaves its queue, and why.
type Finished struct {
	Probe *Probe
	Step  engine.Step
}

// Set is the queues of all hosts of a ready queue.
type Set struct {
	Owner   Owner
	Created time.Time // the start of the clock of answers

	AcceptsSilently bool   // its hosts may begin to accept every recipient: see unconfirmed.go
	Source          string // egress source
	BlocksAsUnknown bool   // its hosts may begin to refuse every recipient as unknown: see control.go

	Queued  [budget.NumPriorities]int // probes in queues
	Answers uint64                    // to recipients, since the start

	domains  map[domainKey]*Domain
	memories map[string]*memory // by host
	turns    budget.FairShare   // of recipients between short and long jobs
}

// domainKey is the key of a domain in its set.
type domainKey struct{ domain, host string }

// Queue is what waits for one host of one MX set, by domain: what one connection serves at a time.
type Queue struct {
	Key        string
	Name       string
	LastDomain string // of the domain made last

	set         *Set
	memory      *memory
	domainCount int
	domains     [budget.NumPriorities]ring.Ring[*Domain]
	queued      [budget.NumPriorities]int // probes in the domains and in retryFirst
	// probes whose connection was lost while they waited: first on the next one
	retryFirst    probeList
	uncontrolled  probeList                                // refused probes that wait for a control (control.go)
	pendingDecoys [budget.NumPriorities]ring.Ring[*Domain] // domains with a pending decoy, by decoy.ringPriority
	retryDecoys   [budget.NumPriorities]ring.Ring[*Domain] // domains whose decoy must be tried again

	// What was learnt of how the host takes recipients:
	MaxRecipients       int  // most of a transaction, learnt from closes and replies; 0 for no bound
	AnsweredBeforeClose int  // recipients the host answered before it closed a connection early; 0 if it has not
	OneDomain           bool // recipients of one transaction share their domain
	OneAtATime          bool // it takes a transaction only after the last one was answered

	refusing bool // it refused a recipient in this hour, or may be about to: see unconfirmed.go
	suspect  bool // half of what it may refuse in an hour was refused: see suspect_decoy.go
	inFlight int  // groups of transactions that were sent and are not answered yet

	unconfirmed      []*Domain // whose accepted probes wait for any refusal
	controlsInFlight int
}

// Adopt makes a probe one of the set; it waits in no list yet.
func (s *Set) Adopt(p *Probe) { p.set.Store(s) }

// NewQueue makes the queue of a host of an MX set; key is HostKey's.
func (s *Set) NewQueue(key, name string) Queue {
	q := Queue{Key: key, Name: name, set: s, memory: s.memories[name]}
	if q.memory == nil {
		q.memory = &memory{}
		if s.memories == nil {
			s.memories = map[string]*memory{}
		}
		if len(s.memories) < maxMemories {
			s.memories[name] = q.memory
		}
	}
	if q.memory.refusedAll {
		q.MaxRecipients = 1
	}
	return q
}

// HostKey is the key of a host of an MX set: a connection serves one at a time.
func HostKey(host string, hosts []string) string {
	if len(hosts) == 1 {
		return host
	}
	return host + " " + strings.Join(hosts, " ")
}

// MXSet is the MX set in a host's key.
func MXSet(key string) []string {
	hosts := strings.Fields(key)
	if len(hosts) > 1 {
		return hosts[1:]
	}
	return hosts
}

// Domain is one domain at one host: its waiting probes and its decoy.
type Domain struct {
	Name      string
	queue     *Queue
	queues    [budget.NumPriorities]probeList
	scheduled [budget.NumPriorities]bool // in the host's ring of that priority
	inFlight  int                        // recipients being asked, decoy and control included
	listed    int                        // its probes in the host's retryFirst and uncontrolled
	decoy     decoy
}

// Domain is the queue of a domain at a host; nil if there is none.
func (s *Set) Domain(domain, host string) *Domain { return s.domains[domainKey{domain, host}] }

// AddDomain makes the queue of a domain at a host.
func (q *Queue) AddDomain(domain string) *Domain {
	d := &Domain{Name: strings.Clone(domain), queue: q} // the name outlives the row, whose text is shared
	q.domainCount++
	q.LastDomain = d.Name
	if q.set.domains == nil { // of 50,000 sets, few need it at a time
		q.set.domains = map[domainKey]*Domain{}
	}
	q.set.domains[d.key()] = d
	return d
}

func (d *Domain) key() domainKey { return domainKey{d.Name, d.queue.Name} }

// Enqueue adds a probe, first or last of those that wait; if it has lost a connection, to those that come first on the
// next one.
func (d *Domain) Enqueue(p *Probe, at Place) {
	q, priority := d.queue, p.Priority
	p.domain = d
	q.queued[priority]++
	q.set.Queued[priority]++
	list := &d.queues[priority]
	if p.connectionLosses > 0 {
		list = &q.retryFirst
		d.listed++
	} else if !d.scheduled[priority] {
		d.scheduled[priority] = true
		q.domains[priority].Push(d)
	}
	list.push(p)
	if at == First { // it has waited already
		list.first = p
	}
	q.set.Owner.Schedule(q, priority)
}

// dequeue removes a probe from the list in which it waits. Its domain stays in the ring until the ring comes to it.
func (s *Set) dequeue(p *Probe) {
	d := p.domain
	switch p.inList {
	case &d.queue.uncontrolled:
		d.listed--
	case &d.queue.retryFirst:
		d.listed--
		fallthrough
	case &d.queues[p.Priority]:
		d.queue.queued[p.Priority]--
		s.Queued[p.Priority]--
	}
	p.inList.remove(p)
}

// Promote moves a probe that waits to a higher priority; false if it has that already, or does not wait.
func (s *Set) Promote(p *Probe, priority budget.Priority) bool {
	if p.Priority >= priority || p.inList == nil {
		return false
	}
	switch d := p.domain; p.inList {
	case &d.decoy.waiting:
		p.Priority = priority
		d.expediteDecoy(priority)
	case &d.queue.uncontrolled:
		p.Priority, p.answered.carried = priority, true // the first connection that is free sends the control
		s.Owner.Schedule(d.queue, priority)
	default:
		s.dequeue(p)
		p.Priority = priority
		d.Enqueue(p, Last)
	}
	return true
}

// Withdraw takes a probe out. It returns false if a session has it, or if its target has answered and it waits for a
// decoy or a refusal: that is paid for, and its row comes again. With evenAnswered it is taken out all the same.
func (s *Set) Withdraw(p *Probe, evenAnswered bool) bool {
	answered := p.domain != nil && (p.inList == &p.domain.decoy.waiting || p.inList == &p.domain.queue.uncontrolled)
	if p.inList == nil || answered && !evenAnswered {
		return false
	}
	s.dequeue(p)
	p.domain.RemoveIfEmpty()
	return true
}

// TakeQueued takes all probes out that wait to be asked or for a control; of a queue, or of all for nil. A refusal that
// waits for a known control is not believed.
func (s *Set) TakeQueued(of *Queue) []*Probe {
	waitsForDecoy := func(p *Probe) bool { return p.inList == &p.domain.decoy.waiting }
	all := slices.DeleteFunc(s.Unsent(of), waitsForDecoy)
	for _, p := range all {
		if q := p.domain.queue; p.inList == &q.uncontrolled && q.hasControl() {
			p.disbelieve()
		}
		s.dequeue(p)
	}
	return all
}

// Unsent lists the probes that no session has; of a queue, or of all for nil.
func (s *Set) Unsent(of *Queue) (unsent []*Probe) {
	for _, d := range s.domains {
		if of != nil && d.queue != of {
			continue
		}
		lists := []*probeList{&d.queues[budget.Single], &d.queues[budget.ShortJob], &d.queues[budget.LongJob],
			&d.decoy.waiting}
		if d.listed > 0 {
			lists = append(lists, &d.queue.retryFirst, &d.queue.uncontrolled)
		}
		for _, list := range lists {
			for p := range list.all() {
				if p.domain == d {
					unsent = append(unsent, p)
				}
			}
		}
	}
	return unsent
}

// ReleaseWaiters advances all probes that wait for a decoy, except where it is being asked: none will be asked now.
func (s *Set) ReleaseWaiters(now time.Time) {
	for _, d := range s.domains {
		if d.decoy.state != decoyAsking {
			d.releaseWaiters(now)
		}
		d.RemoveIfEmpty()
	}
}

// releaseWaiters advances all probes that wait for a decoy which will not be asked.
func (d *Domain) releaseWaiters(now time.Time) {
	decoy := &d.decoy
	decoy.tries, decoy.unresolvedTries, decoy.asked = 0, 0, 0
	for n := decoy.waiting.n; n > 0; n-- {
		d.queue.set.Owner.Advance(decoy.waiting.pop(), now, Last)
	}
}

// Waiting counts the probes and decoys of a priority that wait for a connection.
func (q *Queue) Waiting(priority budget.Priority) int {
	n := q.queued[priority] + q.pendingDecoysFor(priority)
	if q.controlsInFlight > 0 || !q.hasControl() {
		return n
	}
	for p := range q.uncontrolled.all() { // those that the control of any connection is sent for
		if p.answered.carried && p.Priority == priority {
			n++
		}
	}
	return n
}

// pendingDecoysFor counts the pending decoys of a priority.
func (q *Queue) pendingDecoysFor(priority budget.Priority) int {
	return q.retryDecoys[priority].Len() + q.pendingDecoys[priority].Len()
}

// WaitingCount counts those of all priorities.
func (q *Queue) WaitingCount() int {
	return q.Waiting(budget.LongJob) + q.Waiting(budget.ShortJob) + q.Waiting(budget.Single)
}

// Queued counts the waiting probes of a priority.
func (q *Queue) Queued(priority budget.Priority) int { return q.queued[priority] }

// Empty reports whether a host has no domains.
func (q *Queue) Empty() bool { return q.domainCount == 0 }

// RemoveIfEmpty removes a domain that is not used.
func (d *Domain) RemoveIfEmpty() {
	s := d.queue.set
	if d.queues[budget.LongJob].n+d.queues[budget.ShortJob].n+d.queues[budget.Single].n+d.decoy.waiting.n+
		d.inFlight+d.listed > 0 ||
		d.scheduled != [budget.NumPriorities]bool{} || d.decoy.state.busy() || s.domains[d.key()] != d {
		return
	}
	delete(s.domains, d.key())
	if len(s.domains) == 0 {
		s.domains = nil
	}
	d.queue.domainCount--
	if d.queue.domainCount == 0 {
		s.Owner.Emptied(d.queue)
	}
}
