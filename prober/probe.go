package prober

import (
	"slices"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// probe is one address on its way to a verdict. Several waiters may wait for it.
//
// As many are alive as rows are under way, and the collector looks through each again and again: hence the narrow fields.
type probe struct {
	ev     engine.Evidence
	policy engine.Policy
	facts  []domainFact // what was known of the domain's decoys when it came; shared, not changed
	key    cache.Key
	retry  bool // a single's retry: goes on without waiters. Guarded by the flight shard of key, as waiters are

	queue  atomic.Pointer[readyQueue]
	urgent atomic.Bool // a single waits for it

	// Guarded by the queue's mutex while the queue has it; ownership passes to the code that takes it out.
	sends            uint8 // RCPTs sent for it, answered or not: at most maxSends
	priority         priority
	suspicion        suspicion     // of its host when it was last answered
	connectionLosses int16         // how heavily its connections failed it, as engine.Next weighs that: see hostQueue.retryFirst
	domainQueue      *domainQueue  // where it waits or is asked
	prev, next       *probe        // neighbours in the list that it waits in
	inList           *probeList    // that list; nil while it is being asked
	lastAnswer       uint64        // when it was last answered, by the queue's count of answers
	answeredAfter    time.Duration // and by the clock, since the prober was made

	waiters   []waiter  // guarded by the flight shard of key
	oneWaiter [1]waiter // room for the usual one
}

// waiter is one row of a caller that waits for a probe.
type waiter struct {
	caller *caller
	row    uint32
	flags  engine.Flags
}

// maxSends bounds how often one probe is sent. Each connection answers at least one of the recipients it was given
// or blames one, so this is never met unless a receiver plays with us.
const maxSends = 24

// outcome is what became of a probe.
type outcome struct {
	verdict   engine.Verdict
	deferred  bool
	due       time.Time
	attempt   int // deferred attempts, this one included
	source    string
	returned  bool // not done: no budget, no place, or no time
	fresh     bool // made now, not read from the cache
	cacheable bool // may be kept in the cache
}

// judge judges a probe whose evidence asks for nothing more.
func (p *probe) judge(now time.Time) outcome {
	p.ev.Suspicion = p.suspicion.forEngine()
	p.addKnownChecks()
	o := outcome{fresh: true, verdict: engine.Judge(&p.ev, p.policy, now), attempt: p.ev.Attempts}
	for i := len(p.ev.Seen) - 1; i >= 0 && !o.cacheable; i-- {
		o.cacheable = cache.Keepable(&o.verdict, &p.ev.Seen[i])
	}
	o.cacheable = o.cacheable && !p.suspicious(&o)
	return o
}

// suspicious reports an acceptance of which suspicion alone says that nothing confirms it: kept, it would outlast the suspicion.
func (p *probe) suspicious(o *outcome) bool {
	return o.verdict.Reason == engine.ReasonAcceptedUnconfirmed &&
		slices.ContainsFunc(p.ev.Seen, func(s engine.Sighting) bool { return s.Finding.Rule == ruleSilentAcceptance })
}

// addKnownChecks adds what was known of the domain's catch-all checks before the probe came, for the score.
func (p *probe) addKnownChecks() {
	except, lacks := p.ev.LacksChecks()
	for i := range p.facts {
		if f := &p.facts[i]; lacks && f.host != except {
			p.ev.PrependCheck(f.fact.Sighting(f.host))
		}
	}
}

// deferUntil is a probe that must wait until due, or now if that is over, and be asked again by the same source. A decoy that was
// asked after its target had been greylisted moves that on: both must have aged when they are asked together.
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

// probeList is a queue of probes from whose middle one can be taken.
type probeList struct {
	first, last *probe
	n           int
}

func (l *probeList) push(p *probe) {
	p.inList, p.prev, p.next = l, l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.n++
}

// pushFront puts p first: it has waited already.
func (l *probeList) pushFront(p *probe) {
	p.inList, p.prev, p.next = l, nil, l.first
	if l.first == nil {
		l.last = p
	} else {
		l.first.prev = p
	}
	l.first = p
	l.n++
}

func (l *probeList) remove(p *probe) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.inList, p.prev, p.next = nil, nil, nil
	l.n--
}

func (l *probeList) pop() *probe {
	p := l.first
	if p != nil {
		l.remove(p)
	}
	return p
}
