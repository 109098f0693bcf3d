package hostqueue

import (
	"time"

	"probity/engine"
	"probity/internal/ring"
	"probity/prober/budget"
	"probity/store/cache"
)

type decoyState uint8

const (
	decoyUnknown decoyState = iota
	decoyPending            // in a ring of the host
	decoyAsking             // a session has it
	decoyKnown              // sighting holds
)

func (s decoyState) busy() bool { return s == decoyPending || s == decoyAsking }

// decoy is the state of a domain's catch-all check (a random recipient) at one host.
type decoy struct {
	state           decoyState
	sighting        engine.Sighting // set by show
	witness         *engine.Witness // made of it when a verdict rests on it
	local           string          // of the recipient that it is about; empty for a fact
	waiting         probeList       // accepted or greylisted probes that wait for its reply
	ringPriority    budget.Priority // their highest priority: the ring it is in while pending
	tries           int             // times it got no reply
	unresolvedTries int             // times the host's name could not be looked up
	asked           int             // times it was sent
	answered        moment          // the last time; unconfirmed while its acceptance is suspect (suspect_decoy.go)
}

// maxDecoyTries is how often a decoy gets no reply before the domain is left unconfirmed.
const maxDecoyTries = 3

// maxUnresolvedTries is the same for failed lookups of the host, which are more often our resolver's fault: ten
// minutes.
const maxUnresolvedTries = 20

// usableFor reports whether the sighting may be used for a probe. A deferred decoy says nothing about a target that was
// accepted later: it is asked again after the wait that the target had.
func (d *decoy) usableFor(p *Probe, now time.Time) bool {
	if d.state != decoyKnown {
		return false
	}
	age := now.Sub(d.sighting.At)
	if d.sighting.Deferred() && !d.sighting.RefusesUnknown() && !isDeferral(targetMeaning(&p.Ev)) {
		return age < p.lastWait()
	}
	return age < cache.LifeFact
}

// isDeferral reports whether a reply of this meaning asks to come again.
func isDeferral(m engine.Meaning) bool {
	return m == engine.Greylisted || m == engine.RateLimited || m == engine.Temporary
}

// DomainFact is what a decoy showed about a domain at a host.
type DomainFact struct {
	Domain, Host string
	Fact         cache.Fact
}

// FactsOf reads the cached facts of a domain at the hosts that may be asked.
func FactsOf(c *cache.Cache, domain string, hosts []string, now time.Time) (facts []DomainFact) {
	const tried = 3 // at most so many hosts are asked: see engine.Next
	for _, h := range hosts[:min(len(hosts), tried)] {
		if f, ok := c.Fact(domain, h, now); ok {
			facts = append(facts, DomainFact{domain, h, f})
		}
	}
	return facts
}

// UseDecoy adds what the domain's decoy has shown to a probe's evidence. It returns false if that may not be used for
// it, or only when the host has refused another recipient: see AwaitDecoy.
func (d *Domain) UseDecoy(p *Probe, now time.Time) bool {
	for i := range p.Facts {
		if f := &p.Facts[i]; d.decoy.state == decoyUnknown && f.Host == d.queue.Name {
			d.decoy.state, d.decoy.local, d.decoy.answered = decoyKnown, "", moment{}
			d.decoy.show(f.Fact.Sighting(f.Host))
			d.decoy.witness = &engine.Witness{Sighting: d.decoy.sighting, Source: f.Fact.Source}
		}
	}
	if !d.decoy.usableFor(p, now) || !d.isConfirmed(p, now) {
		return false
	}
	d.appendDecoy(p)
	return true
}

// targetMeaning returns what the last reply to the target meant.
func targetMeaning(ev *engine.Evidence) engine.Meaning {
	for i := len(ev.Seen) - 1; i >= 0; i-- {
		if s := &ev.Seen[i]; s.Subject == engine.SubjectTarget && s.Event == engine.EventReply {
			return s.Finding.Meaning
		}
	}
	return engine.MeaningUnknown
}

// AwaitDecoy lets a probe wait: for the next refusal of its host, if what the decoy has shown may then be used for it;
// else for the decoy, which is requested unless it is pending or asked.
func (d *Domain) AwaitDecoy(p *Probe, now time.Time) {
	p.domain = d
	d.decoy.waiting.push(p)
	switch {
	case d.decoy.usableFor(p, now):
		d.leaveUnconfirmed()
	case !d.decoy.state.busy():
		d.requestDecoy()
	case p.Priority != budget.LongJob:
		d.expediteDecoy(p.Priority)
	}
}

// expediteDecoy raises the priority of a pending decoy; a known one is requested again for the unconfirmed probes that
// wait.
func (d *Domain) expediteDecoy(priority budget.Priority) {
	decoy, q := &d.decoy, d.queue
	switch {
	case decoy.state == decoyPending && priority > decoy.ringPriority:
		ring.Remove(q.pendingRing(decoy), d)
		decoy.ringPriority = priority
		q.pendingRing(decoy).Push(d)
	case decoy.state == decoyKnown:
		d.requestDecoy()
	}
	q.set.Owner.Schedule(q, priority)
}

// requestDecoy makes the decoy pending, with the highest priority of its waiters.
func (d *Domain) requestDecoy() {
	decoy := &d.decoy
	decoy.state, decoy.ringPriority, decoy.answered.unconfirmed = decoyPending, decoy.priority(), false
	d.queue.pendingRing(decoy).Push(d)
	d.queue.set.Owner.Schedule(d.queue, decoy.ringPriority)
}

// pendingRing is the ring of a pending decoy.
func (q *Queue) pendingRing(decoy *decoy) *ring.Ring[*Domain] {
	if decoy.tries > 0 {
		return &q.retryDecoys[decoy.ringPriority]
	}
	return &q.pendingDecoys[decoy.ringPriority]
}

// deliverDecoy gives the decoy's sighting to the probes that wait for it, if it may be used for them.
func (d *Domain) deliverDecoy(seen engine.Sighting, now time.Time) {
	d.decoy.state = decoyKnown
	d.decoy.tries = 0
	d.decoy.unresolvedTries = 0
	d.decoy.asked = 0
	d.decoy.show(seen)
	d.release(now, nil)
}

// failDecoy ends a try of the decoy that brought no reply: it is requested again, up to a bound; then the waiting
// probes get that it was not answered.
func (d *Domain) failDecoy(e engine.Event, now time.Time) {
	switch decoy := &d.decoy; {
	case decoy.waiting.n == 0: // no probe waits for it any more
		decoy.state = decoyUnknown
	case decoy.tries < maxDecoyTries && decoy.unresolvedTries < maxUnresolvedTries && decoy.asked < MaxSends:
		d.requestDecoy()
	default:
		if e == engine.EventReply {
			e = engine.EventClosed
		}
		d.deliverDecoy(engine.Sighting{Subject: engine.SubjectDecoy, Event: e, Host: d.queue.Name, At: now}, now)
	}
}

// recordNamed completes the sighting of a temporary reply to the decoy that names an unknown user. It counts when the
// decoy got the same before, at least as long ago as a probe that waits for it was made to wait: the wait after an
// attempt is longer than those before it, so what greylists in these words has let the target pass in less. Until then
// the time of the first stands.
func (d *decoy) recordNamed(seen *engine.Sighting) {
	before := &d.sighting
	switch {
	case before.RefusesUnknown():
		seen.Controlled = true
	case before.NamesUnknown():
		seen.Controlled = true
		for p := range d.waiting.all() {
			seen.Controlled = seen.Controlled && seen.At.Sub(before.At) >= p.lastWait()
		}
		if !seen.Controlled {
			seen.At = before.At
		}
	}
}

// FailDecoys counts a failed try for the pending decoys of a host that is down, unless the fault may be ours. It
// reports whether decoys are pending still, and whether each of them has failed once only: then the next try comes
// soon, as a host may refuse a greeting for a moment and a single call may wait.
func (q *Queue) FailDecoys(e engine.Event, ours bool, now time.Time) (pending, soon bool) {
	soon = true
	for _, d := range q.DropPendingDecoys() {
		decoy := &d.decoy
		if e == engine.EventHostServFail {
			decoy.unresolvedTries++
		} else if !ours {
			decoy.tries++
		}
		soon = soon && decoy.tries+decoy.unresolvedTries == 1
		d.failDecoy(e, now)
		d.RemoveIfEmpty()
	}
	return q.pendingDecoyCount() > 0, soon
}

// DropPendingDecoys drops the pending decoys and returns their domains.
func (q *Queue) DropPendingDecoys() (dropped []*Domain) {
	for priority := range budget.NumPriorities {
		for _, r := range [...]*ring.Ring[*Domain]{&q.retryDecoys[priority], &q.pendingDecoys[priority]} {
			for r.Len() > 0 {
				d := r.Pop()
				d.decoy.state = decoyUnknown
				dropped = append(dropped, d)
			}
		}
	}
	return dropped
}

// priority is the highest priority of the waiting probes.
func (d *decoy) priority() budget.Priority {
	priority := budget.LongJob
	for p := range d.waiting.all() {
		priority = max(priority, p.Priority)
	}
	return priority
}

// DecoyLocalPart is the local part of a domain's decoy. It looks natural and cannot be guessed without this node's
// secret. It follows from the domain and the week, so that a greylisted decoy ages under one name (RFC 6647 section
// 2.3).
func DecoyLocalPart(k *cache.Keyer, domain string, now time.Time) string {
	week := now.Unix() / int64(cache.LifeFact/time.Second)
	d := k.Digest("decoy", domain+string(rune('a'+week%26)))
	syllable := func(i int) string {
		return decoyOnsets[int(d[i])%len(decoyOnsets)] + decoyRimes[int(d[6+i])%len(decoyRimes)]
	}
	return syllable(0) + syllable(1) + syllable(2) + "." + syllable(3) + syllable(4) + syllable(5)
}

// Six syllables of one of 21 onsets and one of 20 rimes: 52 bits, 13 to 25 letters, valid under every provider's
// mailbox rules.
var (
	decoyOnsets = [...]string{"b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st",
		"t", "tr", "v", "w"}
	decoyRimes = [...]string{"a", "e", "i", "o", "u", "al", "an", "ar", "el", "en", "er", "il", "in", "ir", "ol", "on",
		"or", "ul", "un", "ur"}
)
