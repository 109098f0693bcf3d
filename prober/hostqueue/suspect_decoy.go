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

// suspectDecoy is a decoy whose acceptance is suspect, and the set's count of answers then.
type suspectDecoy struct {
	domain   *Domain
	accepted uint64
}

// DeliverDecoy gives a decoy's reply to the probes that wait for it; behind are the answers to those of its group
// behind it. If the host has begun to accept every recipient, it returns true, and the host is to be paused until its
// hour is over.
func (r *Replies) DeliverDecoy(dq *Domain, seen engine.Sighting, g *Group, behind []Answer) (acceptsAll bool) {
	h, keep := dq.host, true
	dq.decoy.answer = h.set.Answers
	if seen.Reply.Permanent() {
		accepted := func(a Answer) bool { return a.Finding.Meaning == engine.Accepted }
		seen.Controlled = slices.ContainsFunc(behind, accepted)
		refusedControl := func(a Answer) bool { return g.Recipients[a.Recipient].Control && a.refusesControl() }
		if m := h.memory; m.acceptsIn < r.place && (m.doubtful || slices.ContainsFunc(behind, refusedControl)) {
			seen.Finding = RefusesKnown()
		}
	}
	switch {
	case seen.NamesUnknown():
		dq.decoy.recordNamed(&seen)
	case seen.Finding.Meaning != engine.Accepted:
	case h.refusing && dq.decoy.sighting.RefusesUnknown():
		seen.Finding = silentAcceptance()
		shown := seen
		r.becameAcceptAll, acceptsAll = &shown, true
	case h.lastRefused > h.set.Answers: // a recipient behind it in the same transaction
	case h.suspect:
		dq.decoy.suspectAt, keep = h.set.Answers, false
		h.suspectDecoys.Push(suspectDecoy{dq, h.set.Answers})
	default:
		keep = !h.refusing
	}
	if seen.RefusesUnknown() {
		r.recordRefusal(h.set.Answers)
		h.refusal = h.witness(seen, dq.decoy.local)
	}
	r.Finished = dq.deliverDecoy(seen, r.Now, r.Finished)
	if keep {
		r.keepFact(dq)
	}
	return acceptsAll
}

// Unanswered handles a decoy or control without a reply. A decoy is requested again, up to a bound; then the waiting
// probes get that it was not answered. If the queue may not connect now, they go on without it.
func (r *Replies) Unanswered(to Recipient, e engine.Event, wasAsked, mayConnect bool) {
	if to.Control {
		r.controlUnanswered()
		return
	}
	dq := to.Domain
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

// ConfirmSuspects confirms the suspect decoys that were accepted before a recipient was sent that is refused now. Those
// that no refusal has followed in time prove nothing.
func (r *Replies) ConfirmSuspects() {
	h := r.host
	for ; h.suspectDecoys.Len() > 0; h.suspectDecoys.Pop() {
		s := h.suspectDecoys.Peek()
		d := &s.domain.decoy
		until := d.sighting.At.Add(h.set.ConfirmTime())
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
		f.Message, f.Source = redact.Text(dq.decoy.sighting.Reply.Text(), dq.decoy.local), dq.host.set.Source
		r.Facts = append(r.Facts, DomainFact{dq.Name, dq.host.Name, f})
	}
}

// discard replaces a decoy's acceptance by silentAcceptance.
func (d *decoy) discard(at time.Time) {
	seen := d.sighting
	seen.Finding, seen.At, d.suspectAt = silentAcceptance(), at, 0
	d.show(seen)
}
