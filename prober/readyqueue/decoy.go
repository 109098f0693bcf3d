package readyqueue

import (
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/store/cache"
)

type decoyState uint8

const (
	decoyUnknown decoyState = iota
	decoyPending            // in a ring of the host queue
	decoyAsking             // a session has it
	decoyKnown              // sighting holds
)

func (s decoyState) busy() bool { return s == decoyPending || s == decoyAsking }

// decoy is the state of a domain's catch-all check (a random recipient) at one host. Guarded by the queue's mutex.
type decoy struct {
	state           decoyState
	sighting        engine.Sighting
	waiting         probeList    // accepted or greylisted probes that wait for its reply
	ringPriority    budget.Class // their highest priority: the ring it is in while pending
	tries           int          // times it got no reply
	unresolvedTries int          // times the host's name could not be looked up
	asked           int          // times it was sent
	suspectAt       uint64       // the queue's count of answers when it was accepted under suspicion, else 0 (suspect_decoy.go)
}

// maxDecoyTries is how often a decoy gets no reply before the domain is left unconfirmed.
const maxDecoyTries = 3

// maxUnresolvedTries is the same for failed lookups of the host, which are more often our resolver's fault: ten minutes.
const maxUnresolvedTries = 20

// usableFor reports that the sighting may be used for a target. A deferred decoy says nothing about a target that was
// accepted later: it is asked again after the wait that a target would have.
func (d *decoy) usableFor(target engine.Meaning, wait time.Duration, now time.Time) bool {
	if d.state != decoyKnown {
		return false
	}
	age := now.Sub(d.sighting.At)
	if d.sighting.Deferred() && !d.sighting.RefusesUnknown() && !isDeferral(target) {
		return age < wait
	}
	return age < cache.LifeFact
}

func isDeferral(m engine.Meaning) bool {
	return m == engine.Greylisted || m == engine.RateLimited || m == engine.Temporary
}

// domainFact is what a decoy showed about a domain at a host.
type DomainFact struct {
	domain, Host string
	Fact         cache.Fact
}

// FactsOf reads the cached facts of a domain at the hosts that may be asked. No lock is held.
func (e *Env) FactsOf(domain string, hosts []string, now time.Time) (facts []DomainFact) {
	const tried = 3 // at most so many hosts are asked: see engine.Next
	for _, h := range hosts[:min(len(hosts), tried)] {
		if f, ok := e.Cache.Fact(domain, h, now); ok {
			facts = append(facts, DomainFact{domain, h, f})
		}
	}
	return facts
}

// loadFact fills a domain queue's decoy from the facts that the probe brought.
func (dq *domainQueue) loadFact(p *Probe) {
	if dq.decoy.state != decoyUnknown {
		return
	}
	for i := range p.Facts {
		if f := &p.Facts[i]; f.Host == dq.host {
			dq.decoy.state, dq.decoy.sighting = decoyKnown, f.Fact.Sighting(dq.host)
		}
	}
}

// awaitDecoy lets a probe wait for the decoy, and requests it unless it is pending or asked.
func (dq *domainQueue) awaitDecoy(p *Probe) {
	p.domainQueue = dq
	dq.decoy.waiting.push(p)
	if !dq.decoy.state.busy() {
		dq.requestDecoy()
	} else if p.Priority != budget.LongJob {
		dq.expediteDecoy(p.Priority)
	}
}

// expediteDecoy raises the priority of a pending decoy; a known one is requested again for the unconfirmed probes that wait.
func (dq *domainQueue) expediteDecoy(class budget.Class) {
	d, hq := &dq.decoy, dq.hostQueue
	switch {
	case d.state == decoyPending && class > d.ringPriority:
		removeFrom(hq.pendingRing(d), dq)
		d.ringPriority = class
		hq.pendingRing(d).push(dq)
	case d.state == decoyKnown:
		dq.requestDecoy()
	}
	hq.schedule(class)
}

// requestDecoy makes the decoy pending, with the highest priority of its waiters.
func (dq *domainQueue) requestDecoy() {
	d := &dq.decoy
	d.state, d.ringPriority, d.suspectAt = decoyPending, d.priority(), 0
	dq.hostQueue.pendingRing(d).push(dq)
	dq.hostQueue.schedule(d.ringPriority)
}

// pendingRing is the ring of a pending decoy.
func (hq *hostQueue) pendingRing(d *decoy) *ring[*domainQueue] {
	if d.tries > 0 {
		return &hq.retryDecoys[d.ringPriority]
	}
	return &hq.pendingDecoys[d.ringPriority]
}

// deliverDecoy gives the decoy's sighting to all probes that wait for it. The mutex is held.
func (dq *domainQueue) deliverDecoy(seen engine.Sighting, now time.Time, out []Finished) []Finished {
	dq.decoy.state, dq.decoy.sighting, dq.decoy.tries, dq.decoy.unresolvedTries, dq.decoy.asked = decoyKnown, seen, 0, 0, 0
	for waiting := dq.decoy.waiting.n; waiting > 0; waiting-- {
		p := dq.decoy.waiting.pop()
		if !dq.isConfirmed(p, now) {
			dq.leaveUnconfirmed(p)
			continue
		}
		p.Ev.Append(seen)
		out = dq.hostQueue.queue.advance(p, now, false, out)
	}
	return out
}

// unansweredDecoy is the sighting of a decoy that got an event instead of a reply.
func unansweredDecoy(dq *domainQueue, e engine.Event, now time.Time) engine.Sighting {
	if e == engine.EventReply {
		e = engine.EventClosed
	}
	return engine.Sighting{Subject: engine.SubjectDecoy, Event: e, Host: dq.host, At: now}
}

// failDecoys counts a failed try for the pending decoys of a host that is down, unless the fault may be ours. The second try
// comes soon, as a host may refuse a greeting for a moment only and a single call may wait; later ones after failureLife.
// After maxDecoyTries the waiting probes go on without a reply. The mutex is held.
func (hq *hostQueue) failDecoys(s *session, e engine.Event, now time.Time, out []Finished) []Finished {
	ours := s.dialled && s.source.Health.MayBeOurFault(s.began)
	pause := minBackoff
	for _, dq := range hq.dropPendingDecoys() {
		d := &dq.decoy
		if e == engine.EventHostServFail {
			d.unresolvedTries++
		} else if !ours {
			d.tries++
		}
		if d.tries+d.unresolvedTries != 1 {
			pause = failureLife
		}
		switch {
		case d.waiting.n == 0:
			dq.removeIfEmpty()
		case d.tries < maxDecoyTries && d.unresolvedTries < maxUnresolvedTries:
			dq.requestDecoy()
		default:
			out = dq.deliverDecoy(unansweredDecoy(dq, e, now), now, out)
			dq.removeIfEmpty()
		}
	}
	if hq.pendingDecoyCount() > 0 {
		hq.block(budget.Single, now.Add(hq.queue.scaled(pause)), now)
	}
	return out
}

// dropPendingDecoys drops the pending decoys and returns their domain queues.
func (hq *hostQueue) dropPendingDecoys() (dropped []*domainQueue) {
	for class := range budget.NumClasses {
		for _, r := range [...]*ring[*domainQueue]{&hq.retryDecoys[class], &hq.pendingDecoys[class]} {
			for r.n > 0 {
				dq := r.pop()
				dq.decoy.state = decoyUnknown
				dropped = append(dropped, dq)
			}
		}
	}
	return dropped
}

// priority is the highest priority of the waiting probes.
func (d *decoy) priority() budget.Class {
	class := budget.LongJob
	for p, n := d.waiting.first, d.waiting.n; n > 0 && class != budget.Single; p, n = p.next, n-1 {
		class = max(class, p.Priority)
	}
	return class
}

// DecoyLocalPart is the local part of a domain's decoy. It looks natural and cannot be guessed without this node's secret.
// It follows from the domain and the week, so that a greylisted decoy ages under one name (RFC 6647 section 2.3).
func DecoyLocalPart(k *cache.Keyer, domain string, now time.Time) string {
	week := now.Unix() / int64(cache.LifeFact/time.Second)
	d := k.Digest("decoy", domain+string(rune('a'+week%26)))
	syllable := func(i int) string {
		return decoyOnsets[int(d[i])%len(decoyOnsets)] + decoyRimes[int(d[6+i])%len(decoyRimes)]
	}
	return syllable(0) + syllable(1) + syllable(2) + "." + syllable(3) + syllable(4) + syllable(5)
}

// Six syllables of one of 21 onsets and one of 20 rimes: 52 bits, 13 to 25 letters, valid under every provider's mailbox rules.
var (
	decoyOnsets = [...]string{"b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "w"}
	decoyRimes  = [...]string{"a", "e", "i", "o", "u", "al", "an", "ar", "el", "en", "er", "il", "in", "ir", "ol", "on", "or", "ul", "un", "ur"}
)
