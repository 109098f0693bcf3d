package hostqueue

import (
	"slices"
	"time"

	"probity/engine"
	"probity/engine/redact"
	"probity/store/cache"
)

// If a host that has refused recipients in this hour accepts a decoy, either its domain accepts every recipient, or the
// host has begun to accept every recipient. If it refused the decoy before, it has begun to. Else the acceptance is
// believed, but not kept as a fact of the domain unless a refusal came after it. After half of an hour's refusals it is
// not even believed: the decoy is suspect, and the probes that wait for it wait for the host's next refusal too, as
// accepted targets do (unconfirmed.go). If none comes in time, or none can be expected, the probes are deferred and
// nothing is kept: the domain is asked again in another hour.

// silentAcceptance is the finding for a host that may have begun to accept every recipient: the waiting probes are
// retried.
func silentAcceptance() engine.Finding {
	return engine.Finding{Meaning: engine.RateLimited, Blame: engine.BlameUs, Rule: RuleSilentAcceptance}
}

// RuleSilentAcceptance is the rule of that finding.
const RuleSilentAcceptance = "default/accepts-silently"

// DeliverDecoy gives the reply to a decoy, the answer of index k, to the probes that wait for it. If the host has begun
// to accept every recipient, it returns true, and the host is to be paused until its hour is over.
func (r *Replies) DeliverDecoy(d *Domain, seen engine.Sighting, k int) (acceptsAll bool) {
	q, keep := d.queue, true
	if seen.Finding.Meaning == engine.Accepted {
		q.memory.acceptedDecoy = true
	}
	if seen.Reply.Permanent() && r.refusedInDoubtfulPlace(d, &seen, r.Seen[k+1:]) {
		return false
	}
	switch {
	case seen.NamesUnknown():
		d.decoy.recordNamed(&seen)
	case seen.Finding.Meaning != engine.Accepted:
	case q.refusing && d.decoy.sighting.RefusesUnknown():
		seen.Finding = silentAcceptance()
		shown := seen
		r.becameAcceptAll, acceptsAll = &shown, true
	case q.memory.lastRefused > q.set.Answers: // a recipient behind it in the same transaction
	case q.suspect:
		d.decoy.answered.unconfirmed, keep = true, false
	default:
		keep = !q.refusing
	}
	if seen.RefusesUnknown() && !refusesAsUnknown(&seen) { // the others are counted already
		q.memory.countRefusal(r.on)
		r.recordRefusal(q.set.Answers, seen, d.decoy.local)
	}
	d.deliverDecoy(seen, r.Now)
	if keep {
		r.keepFact(d)
	}
	return acceptsAll
}

// refusedInDoubtfulPlace completes the sighting of a refused decoy by what is behind it. If the host may accept no
// recipient in such a place, and nothing behind it shows the contrary, the decoy is requested again, to be the first of
// the next connection, and it returns true.
func (r *Replies) refusedInDoubtfulPlace(d *Domain, seen *engine.Sighting, behind []Answer) (again bool) {
	q, decoy := r.queue, &d.decoy
	seen.Controlled = slices.ContainsFunc(behind, func(a Answer) bool { return a.Finding.Meaning == engine.Accepted })
	refusedControl := func(a Answer) bool { return r.group.Recipients[a.Recipient].Control && a.refusesControl() }
	switch {
	case q.memory.acceptsIn >= r.place:
	case q.memory.doubtful || slices.ContainsFunc(behind, refusedControl):
		seen.Finding = RefusesKnown()
	case q.hasControl() && q.memory.perConnection == 0 && !seen.Controlled && decoy.tries+1 < maxDecoyTries:
		decoy.tries++
		d.requestDecoy()
		return true
	}
	return false
}

// unanswered handles a decoy or control of a group without a reply. If the queue may not connect now, the probes that
// wait for the decoy go on without it, and refusals of connections that have ended are not believed: whether the host
// refused everybody then is not known.
func (r *Replies) unanswered(to Recipient, u *Unanswered, tried bool) {
	d, decoy := to.Domain, &to.Domain.decoy
	if to.Control {
		r.queue.controlsInFlight--
		r.queue.settle(r.Now, func(p *Probe) ruling { return disbelieved.when(p.answered.carried && !u.MayConnect()) })
		return
	}
	if tried {
		decoy.tries++
	}
	if !u.MayConnect() {
		decoy.state = decoyUnknown
		d.releaseWaiters(r.Now)
		return
	}
	d.failDecoy(u.Outcome.Fault.Event, r.Now)
}

// resolveSuspect confirms a suspect decoy if a recipient was refused that was sent after its acceptance. If none was in
// time, it proves nothing.
func (r *Replies) resolveSuspect(d *Domain) {
	decoy, q := &d.decoy, d.queue
	until := decoy.sighting.At.Add(q.set.ConfirmTime())
	switch {
	case !decoy.answered.unconfirmed:
	case r.Now.After(until):
		decoy.discard(until)
	case q.memory.confirmedUpTo >= decoy.answered.number:
		decoy.answered.unconfirmed = false
		r.keepFact(d)
	}
}

// keepFact keeps what a decoy has shown as a fact of its domain at the host, if it is one.
func (r *Replies) keepFact(d *Domain) {
	if f, ok := cache.FactOf(&d.decoy.sighting); ok {
		f.Message, f.Source = redact.Text(d.decoy.sighting.Reply.Text(), d.decoy.local), d.queue.set.Source
		r.unproven.Facts = append(r.unproven.Facts, DomainFact{d.Name, d.queue.Name, f})
	}
}

// discard replaces a decoy's acceptance by silentAcceptance.
func (d *decoy) discard(at time.Time) {
	seen := d.sighting
	seen.Finding, seen.At, d.answered.unconfirmed = silentAcceptance(), at, false
	d.show(seen)
}
