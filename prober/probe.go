package prober

import (
	"slices"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/store/cache"
)

// probe is one address on its way to a verdict. Several waiters may wait for it.
//
// There is one for each row in memory, and the garbage collector scans them all, so the fields are small.
type probe struct {
	ev     engine.Evidence
	policy engine.Policy
	facts  []domainFact // what was known of the domain's decoys when the row came; shared, read-only
	key    cache.Key
	retry  bool // retry of a single call: goes on without waiters. Guarded by the inFlight shard of key, as waiters are

	queue  atomic.Pointer[readyQueue]
	urgent atomic.Bool // a single call waits for it

	// Guarded by the queue's mutex while the queue has it; the code that removes it becomes the owner.
	sends            uint8 // RCPTs sent, answered or not: at most maxSends
	priority         budget.Class
	suspicion        suspicion     // of its host at its last reply
	connectionLosses int16         // lost connections, as engine.Next weighs them: see hostQueue.retryFirst
	domainQueue      *domainQueue  // in which it waits or is asked
	prev, next       *probe        // neighbours in the list that it waits in
	inList           *probeList    // that list; nil while it is being asked
	lastAnswer       uint64        // its last reply, by the queue's count of answers
	answeredAfter    time.Duration // the same by the clock, since the prober was made

	waiters   []waiter  // guarded by the inFlight shard of key
	oneWaiter [1]waiter // usual storage of waiters
}

// waiter is one row of a caller that waits for a probe.
type waiter struct {
	caller *caller
	row    uint32
	flags  engine.Flags
}

// maxSends bounds how often one probe is sent. On each connection at least one recipient is answered or blamed, so only a
// hostile receiver can make a probe reach it.
const maxSends = 24

// outcome is the result of a probe.
type outcome struct {
	verdict   engine.Verdict
	deferred  bool
	due       time.Time
	attempt   int // deferred attempts, this one included
	source    string
	returned  bool // not finished: no budget, no memory, or no time
	fresh     bool // made now, not read from the cache
	cacheable bool // may be kept in the cache
}

// judge judges a probe whose evidence is complete.
func (p *probe) judge(now time.Time) outcome {
	p.ev.Suspicion = engine.Suspicion(p.suspicion) // the same values
	except, lacks := p.ev.LacksChecks()
	for i := range p.facts { // what was known of the domain's catch-all checks counts for the score
		if f := &p.facts[i]; lacks && f.host != except {
			p.ev.PrependCheck(f.fact.Sighting(f.host))
		}
	}
	o := outcome{fresh: true, verdict: engine.Judge(&p.ev, p.policy, now), attempt: p.ev.Attempts}
	for i := len(p.ev.Seen) - 1; i >= 0 && !o.cacheable; i-- {
		o.cacheable = cache.Keepable(&o.verdict, &p.ev.Seen[i])
	}
	if o.verdict.Reason == engine.ReasonAcceptedUnconfirmed &&
		slices.ContainsFunc(p.ev.Seen, func(s engine.Sighting) bool { return s.Finding.Rule == ruleSilentAcceptance }) {
		o.cacheable = false // unconfirmed only because of suspicion: cached, it would outlast it
	}
	return o
}

// deferUntil is the outcome of a probe that must be asked again by the same source at due, or now if that is past. A decoy that
// was asked after its target was greylisted moves due on: both must have waited long enough when they are asked together.
func (p *probe) deferUntil(due, now time.Time, sourceName string) outcome {
	for i := len(p.ev.Seen) - 1; i > 0; i-- {
		s, target := &p.ev.Seen[i], &p.ev.Seen[i-1]
		if s.Subject == engine.SubjectDecoy && target.Finding.Meaning == engine.Greylisted && s.At.After(target.At) {
			due = due.Add(s.At.Sub(target.At))
			break
		}
	}
	if due.Before(now) {
		due = now
	}
	o := outcome{fresh: true, deferred: true, due: due, attempt: p.ev.Attempts + 1, source: sourceName}
	o.verdict = engine.Judge(&p.ev, p.policy, now)
	o.verdict.Details.NextRetry = due
	return o
}

// probeList is a queue of probes that also permits removal from the middle. The probes are linked in a ring.
type probeList struct {
	first *probe // the one before it is the last
	n     int
}

func (l *probeList) push(p *probe) {
	p.inList = l
	if l.n++; l.n == 1 {
		l.first, p.prev, p.next = p, p, p
		return
	}
	p.prev, p.next = l.first.prev, l.first
	p.prev.next, p.next.prev = p, p
}

// pushFront adds p as the first: it has waited already.
func (l *probeList) pushFront(p *probe) {
	l.push(p)
	l.first = p
}

func (l *probeList) remove(p *probe) {
	p.prev.next, p.next.prev = p.next, p.prev
	if l.n--; l.n == 0 {
		l.first = nil
	} else if l.first == p {
		l.first = p.next
	}
	p.inList, p.prev, p.next = nil, nil, nil
}

func (l *probeList) pop() *probe {
	p := l.first
	if p != nil {
		l.remove(p)
	}
	return p
}
