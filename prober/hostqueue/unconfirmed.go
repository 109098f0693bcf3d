package hostqueue

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/budget"
)

// Some receivers react to many unknown recipients by accepting every recipient for the rest of the hour. What a decoy showed in
// the morning then proves nothing about a later acceptance. So if a receiver may do that, and half of an hour's refusals have
// been received, an acceptance is confirmed only when the host has refused a recipient after it: another target, or a decoy,
// which is asked when several acceptances wait in vain, or no other target of their kind of job is left, or before the host is
// paused as a tarpit (RequestLastDecoys). "After" is the host's order: later in the same transaction, or in one that was sent after the
// acceptance was received. Replies of two connections arrive in any order: so if recipients in flight may make up half of an
// hour's refusals, an acceptance waits until all that were sent before it was received have been answered too, and is confirmed
// or left unconfirmed then. It is not known here when replies over other routes to the same address come: recipients in flight
// there count as answered for an acceptance, but not for a decoy that nothing was known of, or a busy catch-all host would
// never be called one. An acceptance stays unconfirmed when the hour is over: the refusals of the next hour prove nothing about
// the last.
//
// An accepted decoy is an acceptance like any other (suspect_decoy.go): what one has shown without suspicion, or
// before a refusal, stays.

// Replies handles the replies to one group of transactions.
type Replies struct {
	Now      time.Time
	Finished []Finished
	Facts    []DomainFact // what decoys have shown, to be kept

	host            *Host
	answersAtSend   uint64
	first           int              // index of the first answer of the present transaction
	becameAcceptAll *engine.Sighting // the decoy that showed that every recipient is accepted now
	unconfirmed     int              // unconfirmed acceptances that wait for a target's refusal; no decoy is requested for them
	unconfirmedAt   *Domain          // the first of them
}

// NewReplies begins to handle the replies to a group; finished is appended to.
func (h *Host) NewReplies(g *Group, now time.Time, finished []Finished) Replies {
	if i := slices.Index(h.inFlight, sentGroup{g.answersAtSend, len(g.Recipients)}); i >= 0 {
		h.inFlight = slices.Delete(h.inFlight, i, i+1)
	}
	return Replies{Now: now, Finished: finished, host: h, answersAtSend: g.answersAtSend}
}

// Answer is the reply to the recipient of a group.
type Answer struct {
	Recipient int // its place in the group
	Reply     engine.Reply
	Finding   engine.Finding
}

// UpdateSuspicion records whether this hour's refusals bring the host under suspicion, or would if all recipients in flight were
// refused; and the last refusal of this group. limit is how many refusals make a host suspect, refused how many there were over the route
// or at the address, reserved how many may come at the address.
func (r *Replies) UpdateSuspicion(limit, refused, reserved int, seen []Answer) {
	h, inFlight := r.host, r.host.recipientsInFlight()
	others := max(0, reserved-inFlight)
	h.overLimit, h.overWithOthers, h.overWithInFlight = refused >= limit, refused+others >= limit, refused+others+inFlight >= limit
	h.lastStart = h.set.Answers
	for k, a := range seen {
		if a.Finding.Blame == engine.BlameRecipient && a.Reply.Permanent() || a.Finding.NamesUnknown {
			h.confirmedUpTo, h.lastRefused = max(h.confirmedUpTo, r.answersAtSend), h.set.Answers+uint64(k)+1
		}
	}
}

// RecordAnswer records that a probe's target was answered; the answer is counted already.
func (r *Replies) RecordAnswer(p *Probe) {
	p.lastAnswer, p.Suspicion, p.answeredAfter = r.host.set.Answers, r.host.suspicion(), r.Now.Sub(r.host.set.Created)
}

// sentGroup is a group of transactions that was sent and is not answered yet.
type sentGroup struct {
	answersAtSend uint64 // the set's count of answers when it was filled
	n             int    // its recipients
}

// recipientsInFlight is how many recipients have been sent and not answered.
func (h *Host) recipientsInFlight() (n int) {
	for _, v := range h.inFlight {
		n += v.n
	}
	return n
}

// suspicion says whether the host may have accepted without checking what it accepted now.
func (h *Host) suspicion() engine.Suspicion {
	switch {
	case h.overWithOthers:
		return engine.SuspicionHigh
	case h.overWithInFlight && len(h.inFlight) > 0:
		return engine.SuspicionLow
	}
	return engine.SuspicionNone
}

// ConfirmTime is how soon after an acceptance a refusal must come to confirm it: later the host's hour may be over, and it
// checks again. What is not confirmed by then is asked again.
const ConfirmTime = 2 * time.Minute

// confirmBy is until when a refusal can confirm an acceptance.
func (s *Set) confirmBy(p *Probe) time.Time {
	return s.Created.Add(p.answeredAfter + s.Owner.Scaled(ConfirmTime))
}

// pastConfirming reports an acceptance that nothing can confirm any more.
func (s *Set) pastConfirming(p *Probe, now time.Time) bool {
	return p.Suspicion != engine.SuspicionNone && now.After(s.confirmBy(p))
}

// isConfirmed reports that what the decoy has shown may be used with the acceptance of a probe.
func (dq *Domain) isConfirmed(p *Probe, now time.Time) bool {
	h := dq.host
	// Recipients in flight that were sent before the acceptance was received: one of them may have been refused first. The groups
	// are in the order of their counts.
	earlier := h.overWithInFlight && len(h.inFlight) > 0 && h.inFlight[0].answersAtSend < p.lastAnswer
	switch {
	case dq.decoy.suspectAt != 0:
		return false
	case !dq.decoy.sighting.RefusesUnknown() || p.Suspicion == engine.SuspicionNone:
		return true
	case h.set.pastConfirming(p, now):
		return false
	case h.confirmedUpTo >= p.lastAnswer || p.lastAnswer > h.lastStart && h.lastRefused > p.lastAnswer:
		return true
	case h.overWithOthers:
		p.Suspicion = engine.SuspicionHigh
	case p.Suspicion == engine.SuspicionLow && !earlier:
		p.Suspicion = engine.SuspicionNone
		return true
	}
	return false
}

// LeaveUnconfirmed lets an accepted probe wait until its host refuses a recipient.
func (dq *Domain) LeaveUnconfirmed(p *Probe) {
	p.domain = dq
	dq.decoy.waiting.push(p)
	if !slices.Contains(dq.host.unconfirmed, dq) {
		dq.host.unconfirmed = append(dq.host.unconfirmed, dq)
	}
}

// ResolveUnconfirmed releases the probes that this transaction has resolved, and requests a decoy for the others if it is time.
// A probe that only waits for replies in flight is not unconfirmed yet. Then it releases the probes that wait for a refusal after
// an accepted decoy (suspect_decoy.go) if none can be expected: nothing more is asked or in flight at the host, it accepts
// without checking, or a single call waits.
func (r *Replies) ResolveUnconfirmed() {
	h := r.host
	if len(h.unconfirmed) == 0 {
		return
	}
	waiting := h.unconfirmed
	h.unconfirmed = nil
	unconfirmed, asking, first, priority := 0, false, (*Domain)(nil), budget.LongJob
	for _, dq := range waiting {
		if r.releaseConfirmed(dq); dq.decoy.waiting.n > 0 {
			if !slices.Contains(h.unconfirmed, dq) {
				h.unconfirmed = append(h.unconfirmed, dq)
			}
			asking = asking || dq.decoy.state.busy()
			if n := dq.unconfirmedCount(); n > 0 {
				unconfirmed += n
				if p := dq.decoy.priority(); first == nil || p > priority {
					first, priority = dq, p
				}
			}
		}
	}
	switch {
	case unconfirmed == 0 || asking:
	case unconfirmed >= maxUnconfirmed || h.noTargetLeft(priority):
		first.requestDecoy()
	default:
		r.unconfirmed, r.unconfirmedAt = unconfirmed, first
	}
	for _, dq := range slices.Clone(h.unconfirmed) {
		priority := dq.decoy.priority()
		if dq.decoy.suspectAt == 0 || r.becameAcceptAll == nil && priority != budget.Single && (!h.noTargetLeft(priority) || h.pendingDecoyCount()+len(h.inFlight) > 0) {
			continue
		}
		dq.decoy.discard(r.Now)
		r.releaseConfirmed(dq)
		h.unconfirmed = slices.DeleteFunc(h.unconfirmed, func(other *Domain) bool { return other == dq })
	}
}

// noTargetLeft reports that no target is left that may soon be refused for the unconfirmed acceptances, the highest of which
// has this priority. A single call does not wait for other probes. A short job does not wait for a long job, which may not be
// served for hours.
func (h *Host) noTargetLeft(priority budget.Priority) bool {
	switch priority {
	case budget.Single:
		return true
	case budget.ShortJob:
		return h.queued[budget.ShortJob]+h.queued[budget.Single] == 0
	}
	return h.queued[budget.LongJob]+h.queued[budget.ShortJob]+h.queued[budget.Single] == 0
}

// unconfirmedCount is how many acceptances wait for a refusal that the domain queue's decoy may bring.
func (dq *Domain) unconfirmedCount() (n int) {
	if dq.decoy.suspectAt != 0 {
		return 0
	}
	for p := range dq.decoy.waiting.all() {
		if p.Suspicion == engine.SuspicionHigh {
			n++
		}
	}
	return n
}

// maxUnconfirmed is how many acceptances may wait for a refusal of a target before a decoy is used for them.
const maxUnconfirmed = 8

// releaseConfirmed advances the probes of a domain queue that need not wait any more: the host has refused a recipient since,
// has begun to accept every one, or their time is over.
func (r *Replies) releaseConfirmed(dq *Domain) {
	if dq.decoy.state.busy() || dq.decoy.suspectAt != 0 {
		return
	}
	for n := dq.decoy.waiting.n; n > 0; n-- {
		p := dq.decoy.waiting.pop()
		switch {
		case r.becameAcceptAll != nil:
			p.Ev.Append(*r.becameAcceptAll)
		case dq.isConfirmed(p, r.Now):
			p.Ev.Append(dq.decoy.sighting)
		case r.host.set.pastConfirming(p, r.Now):
			p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Host: dq.host.Name, Reply: dq.decoy.sighting.Reply, Finding: silentAcceptance(), At: r.host.set.confirmBy(p)})
		default:
			dq.decoy.waiting.push(p)
			continue
		}
		r.Finished = r.host.set.Owner.Advance(p, r.Now, false, r.Finished)
	}
	dq.RemoveIfEmpty()
}
