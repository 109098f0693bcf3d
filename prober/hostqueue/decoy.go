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
	witness         *engine.Witness // made of it by shown
	local           string          // of the recipient that it is about; empty for a fact
	waiting         probeList       // accepted or greylisted probes that wait for its reply
	ringPriority    budget.Priority // their highest priority: the ring it is in while pending
	tries           int             // times it got no reply
	unresolvedTries int             // times the host's name could not be looked up
	asked           int             // times it was sent
	answer          uint64          // the number of its last answer in the set; 0 for a fact of another day
	suspectAt       uint64          // the same while its acceptance is suspect, else 0 (suspect_decoy.go)
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
	if d.sighting.Deferred() && !d.sighting.RefusesUnknown() && !IsDeferral(targetMeaning(&p.Ev)) {
		return age < p.lastWait()
	}
	return age < cache.LifeFact
}

// IsDeferral reports whether a reply of this meaning asks to come again.
func IsDeferral(m engine.Meaning) bool {
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

// DecoyUse says whether what a decoy has shown may be used for a probe.
type DecoyUse uint8

const (
	DecoyUsed        DecoyUse = iota // it was
	DecoyUnconfirmed                 // it may be used when the host has refused another recipient: LeaveUnconfirmed
	DecoyToBeAsked                   // AwaitDecoy
)

// UseDecoy adds what the domain's decoy has shown to a probe's evidence, if that may be used for it.
func (dq *Domain) UseDecoy(p *Probe, now time.Time) DecoyUse {
	dq.loadFact(p)
	switch {
	case !dq.decoy.usableFor(p, now):
		return DecoyToBeAsked
	case !dq.isConfirmed(p, now):
		return DecoyUnconfirmed
	}
	dq.appendDecoy(p)
	return DecoyUsed
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

// loadFact fills a domain's decoy from the facts that the probe brought.
func (dq *Domain) loadFact(p *Probe) {
	if dq.decoy.state != decoyUnknown {
		return
	}
	for i := range p.Facts {
		if f := &p.Facts[i]; f.Host == dq.host.Name {
			dq.decoy.state, dq.decoy.local = decoyKnown, ""
			dq.decoy.show(f.Fact.Sighting(dq.host.Name))
			dq.decoy.witness = &engine.Witness{Sighting: dq.decoy.sighting, Source: f.Fact.Source}
		}
	}
}

// AwaitDecoy lets a probe wait for the decoy, and requests it unless it is pending or asked.
func (dq *Domain) AwaitDecoy(p *Probe) {
	p.domain = dq
	dq.decoy.waiting.push(p)
	if !dq.decoy.state.busy() {
		dq.requestDecoy()
	} else if p.Priority != budget.LongJob {
		dq.expediteDecoy(p.Priority)
	}
}

// expediteDecoy raises the priority of a pending decoy; a known one is requested again for the unconfirmed probes that
// wait.
func (dq *Domain) expediteDecoy(priority budget.Priority) {
	d, h := &dq.decoy, dq.host
	switch {
	case d.state == decoyPending && priority > d.ringPriority:
		ring.Remove(h.pendingRing(d), dq)
		d.ringPriority = priority
		h.pendingRing(d).Push(dq)
	case d.state == decoyKnown:
		dq.requestDecoy()
	}
	h.set.Owner.Schedule(h, priority)
}

// requestDecoy makes the decoy pending, with the highest priority of its waiters.
func (dq *Domain) requestDecoy() {
	d := &dq.decoy
	d.state, d.ringPriority, d.suspectAt = decoyPending, d.priority(), 0
	dq.host.pendingRing(d).Push(dq)
	dq.host.set.Owner.Schedule(dq.host, d.ringPriority)
}

// pendingRing is the ring of a pending decoy.
func (h *Host) pendingRing(d *decoy) *ring.Ring[*Domain] {
	if d.tries > 0 {
		return &h.retryDecoys[d.ringPriority]
	}
	return &h.pendingDecoys[d.ringPriority]
}

// deliverDecoy gives the decoy's sighting to all probes that wait for it.
func (dq *Domain) deliverDecoy(seen engine.Sighting, now time.Time, out []Finished) []Finished {
	dq.decoy.state = decoyKnown
	dq.decoy.tries = 0
	dq.decoy.unresolvedTries = 0
	dq.decoy.asked = 0
	dq.decoy.show(seen)
	for waiting := dq.decoy.waiting.n; waiting > 0; waiting-- {
		p := dq.decoy.waiting.pop()
		if !dq.isConfirmed(p, now) {
			dq.LeaveUnconfirmed(p)
			continue
		}
		dq.appendDecoy(p)
		out = dq.host.set.Owner.Advance(p, now, Last, out)
	}
	return out
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

// unansweredDecoy is the sighting of a decoy that got an event instead of a reply.
func unansweredDecoy(dq *Domain, e engine.Event, now time.Time) engine.Sighting {
	if e == engine.EventReply {
		e = engine.EventClosed
	}
	return engine.Sighting{Subject: engine.SubjectDecoy, Event: e, Host: dq.host.Name, At: now}
}

// FailDecoys counts a failed try for the pending decoys of a host that is down, unless the fault may be ours. After
// maxDecoyTries the waiting probes go on without a reply. It reports whether decoys are pending still, and whether each
// of them has failed once only: then the next try comes soon, as a host may refuse a greeting for a moment and a single
// call may wait.
func (h *Host) FailDecoys(e engine.Event, ours bool, now time.Time,
	out []Finished) (finished []Finished, pending, soon bool) {
	soon = true
	for _, dq := range h.DropPendingDecoys() {
		d := &dq.decoy
		if e == engine.EventHostServFail {
			d.unresolvedTries++
		} else if !ours {
			d.tries++
		}
		soon = soon && d.tries+d.unresolvedTries == 1
		switch {
		case d.waiting.n == 0:
			dq.RemoveIfEmpty()
		case d.tries < maxDecoyTries && d.unresolvedTries < maxUnresolvedTries:
			dq.requestDecoy()
		default:
			out = dq.deliverDecoy(unansweredDecoy(dq, e, now), now, out)
			dq.RemoveIfEmpty()
		}
	}
	return out, h.pendingDecoyCount() > 0, soon
}

// DropPendingDecoys drops the pending decoys and returns their domains.
func (h *Host) DropPendingDecoys() (dropped []*Domain) {
	for priority := range budget.NumPriorities {
		for _, r := range [...]*ring.Ring[*Domain]{&h.retryDecoys[priority], &h.pendingDecoys[priority]} {
			for r.Len() > 0 {
				dq := r.Pop()
				dq.decoy.state = decoyUnknown
				dropped = append(dropped, dq)
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
