package hostqueue

import (
	"time"

	"probity/engine"
	"probity/store/cache"
)

// If a host under suspicion accepts a decoy, either its domain accepts every recipient, or the host has begun to accept every
// recipient. The host's next refusal decides: a host that refuses a later recipient still checks. So the probes that wait for
// the decoy wait for that refusal too, as accepted targets do (unconfirmed.go). It makes the decoy's acceptance a fact of the
// domain, which no later suspicion touches. If no refusal comes in time, or none can be expected, the probes are deferred and
// nothing is kept: the domain is asked again when the suspicion is over.

// silentAcceptance is the finding for a host that may have begun to accept every recipient: the waiting probes are retried.
func silentAcceptance() engine.Finding {
	return engine.Finding{Meaning: engine.RateLimited, Blame: engine.BlameUs, Rule: RuleSilentAcceptance}
}

// RuleSilentAcceptance is the rule of that finding.
const RuleSilentAcceptance = "default/accepts-silently"

// suspectDecoy is a decoy that was accepted under suspicion, and the set's count of answers then.
type suspectDecoy struct {
	domain   *Domain
	accepted uint64
}

// DeliverDecoy gives a decoy's reply to the probes that wait for it. If a host under suspicion has accepted it, and refused it before, the
// host has begun to accept every recipient: DeliverDecoy returns true, and the host is to be paused until its hour is over. Else only a
// later refusal confirms the acceptance.
func (r *Replies) DeliverDecoy(dq *Domain, seen engine.Sighting) (acceptsAll bool) {
	h := dq.host
	switch {
	case seen.NamesUnknown():
		dq.decoy.recordNamed(&seen)
	case seen.Finding.Meaning != engine.Accepted:
	case h.overWithOthers && dq.decoy.sighting.RefusesUnknown():
		seen.Finding = silentAcceptance()
		shown := seen
		r.becameAcceptAll, acceptsAll = &shown, true
	case h.overLimit && h.lastRefused <= h.set.Answers: // no recipient behind it in the same transaction was refused
		dq.decoy.suspectAt = h.set.Answers
		h.suspectDecoys.Push(suspectDecoy{dq, h.set.Answers})
	}
	r.Finished = dq.deliverDecoy(seen, r.Now, r.Finished)
	if dq.decoy.suspectAt == 0 {
		r.keepFact(dq)
	}
	return acceptsAll
}

// DecoyUnanswered requests a decoy again, up to a bound; then the waiting probes get that it was not answered. If the queue may not
// connect now, they go on without it.
func (r *Replies) DecoyUnanswered(dq *Domain, e engine.Event, wasAsked, mayConnect bool) {
	if wasAsked {
		dq.decoy.tries++
	}
	switch d := &dq.decoy; {
	case d.waiting.n == 0: // no probe waits for it any more
		d.state = decoyUnknown
		return
	case !mayConnect:
		d.state = decoyUnknown
		r.Finished = dq.releaseWaiters(r.Now, r.Finished)
		return
	case d.tries < maxDecoyTries && d.asked < MaxSends:
		dq.requestDecoy()
		return
	}
	r.Finished = dq.deliverDecoy(unansweredDecoy(dq, e, r.Now), r.Now, r.Finished)
}

// ConfirmSuspects confirms the suspect decoys that were accepted before a recipient was sent that is refused now. Those that no
// refusal has followed in time prove nothing.
func (r *Replies) ConfirmSuspects() {
	h := r.host
	for ; h.suspectDecoys.Len() > 0; h.suspectDecoys.Pop() {
		s := h.suspectDecoys.Peek()
		d := &s.domain.decoy
		until := d.sighting.At.Add(h.set.Owner.Scaled(ConfirmTime))
		switch {
		case d.suspectAt != s.accepted: // it was asked again since, or given up
		case r.Now.After(until):
			d.discard(until)
		case h.confirmedUpTo >= s.accepted:
			d.suspectAt = 0
			r.keepFact(s.domain)
		default:
			return
		}
	}
}

// keepFact keeps what a decoy has shown as a fact of its domain at the host, if it is one.
func (r *Replies) keepFact(dq *Domain) {
	if f, ok := cache.FactOf(&dq.decoy.sighting); ok {
		r.Facts = append(r.Facts, DomainFact{dq.Name, dq.host.Name, f})
	}
}

// discard replaces a decoy's acceptance by silentAcceptance.
func (d *decoy) discard(at time.Time) {
	d.suspectAt, d.sighting.Finding, d.sighting.At = 0, silentAcceptance(), at
}
