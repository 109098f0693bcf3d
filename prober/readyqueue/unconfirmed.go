package readyqueue

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
// paused as a tarpit (tarpit.go). "After" is the host's order: later in the same transaction, or in one that was sent after the
// acceptance was received. Replies of two connections arrive in any order: so if recipients in flight may make up half of an
// hour's refusals, an acceptance waits until all that were sent before it was received have been answered too, and is confirmed
// or left unconfirmed then. It is not known here when replies over other routes to the same address come: recipients in flight
// there count as answered for an acceptance, but not for a decoy that nothing was known of, or a busy catch-all host would
// never be called one. An acceptance stays unconfirmed when the hour is over: the refusals of the next hour prove nothing about
// the last.
//
// An accepted decoy is an acceptance like any other (suspect_decoy.go): what one has shown without suspicion, or
// before a refusal, stays.

// updateSuspicion records whether this hour's refusals, over the route or at the address, bring the host under suspicion, or
// would if all recipients in flight were refused; and the last refusal of this transaction. The mutex is held.
func (rh *replyHandler) updateSuspicion() {
	q, hq := rh.q, rh.s.hostQueue
	limit := q.Provider.Limits.RefusalsPerHour / 2
	if !q.unknownProvider && !q.Provider.AcceptsSilently || limit == 0 {
		return // it is known not to accept without checking
	}
	settled, _ := q.budget.Refusals(rh.now)
	others := 0
	if addrLimit := rh.s.addressLimit; addrLimit != nil {
		atAddress, reserved := addrLimit.Refusals(rh.now)
		settled, others = max(settled, atAddress), max(0, reserved-hq.recipientsInFlight())
	}
	hq.overLimit, hq.overWithOthers, hq.overWithInFlight = settled >= limit, settled+others >= limit, settled+others+hq.recipientsInFlight() >= limit
	hq.lastStart = q.answersSeen
	for k, a := range rh.s.seen {
		if a.finding.Blame == engine.BlameRecipient && a.reply.Permanent() || a.finding.NamesUnknown {
			hq.confirmedUpTo, hq.lastRefused = max(hq.confirmedUpTo, rh.s.answersAtSend), q.answersSeen+uint64(k)+1
		}
	}
}

// inFlightGroup is a group of transactions that was sent and is not answered yet.
type inFlightGroup struct {
	answersAtSend uint64 // the queue's count of answers when it was filled
	n             int    // its recipients
}

// recipientsInFlight is how many recipients have been sent and not answered.
func (hq *hostQueue) recipientsInFlight() (n int) {
	for _, v := range hq.inFlightGroups {
		n += v.n
	}
	return n
}

// suspicion says whether the host may have accepted without checking what it accepted now.
func (hq *hostQueue) suspicion() engine.Suspicion {
	switch {
	case hq.overWithOthers:
		return engine.SuspicionHigh
	case hq.overWithInFlight && len(hq.inFlightGroups) > 0:
		return engine.SuspicionLow
	}
	return engine.SuspicionNone
}

// confirmTime is how soon after an acceptance a refusal must come to confirm it: later the host's hour may be over, and it
// checks again. What is not confirmed by then is asked again.
const confirmTime = 2 * time.Minute

// confirmBy is until when a refusal can confirm an acceptance.
func (q *Queue) confirmBy(p *Probe) time.Time {
	return q.env.Created.Add(p.answeredAfter + q.scaled(confirmTime))
}

// pastConfirming reports an acceptance that nothing can confirm any more.
func (q *Queue) pastConfirming(p *Probe, now time.Time) bool {
	return p.Suspicion != engine.SuspicionNone && now.After(q.confirmBy(p))
}

// isConfirmed reports that what the decoy has shown may be used with the acceptance of a probe.
func (dq *domainQueue) isConfirmed(p *Probe, now time.Time) bool {
	hq := dq.hostQueue
	// Recipients in flight that were sent before the acceptance was received: one of them may have been refused first. The groups
	// are in the order of their counts.
	earlier := hq.overWithInFlight && len(hq.inFlightGroups) > 0 && hq.inFlightGroups[0].answersAtSend < p.lastAnswer
	switch {
	case dq.decoy.suspectAt != 0:
		return false
	case !dq.decoy.sighting.RefusesUnknown() || p.Suspicion == engine.SuspicionNone:
		return true
	case hq.queue.pastConfirming(p, now):
		return false
	case hq.confirmedUpTo >= p.lastAnswer || p.lastAnswer > hq.lastStart && hq.lastRefused > p.lastAnswer:
		return true
	case hq.overWithOthers:
		p.Suspicion = engine.SuspicionHigh
	case p.Suspicion == engine.SuspicionLow && !earlier:
		p.Suspicion = engine.SuspicionNone
		return true
	}
	return false
}

// leaveUnconfirmed lets an accepted probe wait until its host refuses a recipient.
func (dq *domainQueue) leaveUnconfirmed(p *Probe) {
	p.domainQueue = dq
	dq.decoy.waiting.push(p)
	if !slices.Contains(dq.hostQueue.unconfirmed, dq) {
		dq.hostQueue.unconfirmed = append(dq.hostQueue.unconfirmed, dq)
	}
}

// resolveUnconfirmed releases the probes that this transaction has resolved, and requests a decoy for the others if it is time.
// A probe that only waits for replies in flight is not unconfirmed yet. Then it releases the probes that wait for a refusal after
// an accepted decoy (suspect_decoy.go) if none can be expected: nothing more is asked or in flight at the host, it accepts
// without checking, or a single call waits. The mutex is held.
func (rh *replyHandler) resolveUnconfirmed() {
	hq := rh.s.hostQueue
	if len(hq.unconfirmed) == 0 {
		return
	}
	waiting := hq.unconfirmed
	hq.unconfirmed = nil
	unconfirmed, asking, first, class := 0, false, (*domainQueue)(nil), budget.LongJob
	for _, dq := range waiting {
		if rh.releaseConfirmed(dq); dq.decoy.waiting.n > 0 {
			if !slices.Contains(hq.unconfirmed, dq) {
				hq.unconfirmed = append(hq.unconfirmed, dq)
			}
			asking = asking || dq.decoy.state.busy()
			if n := dq.unconfirmedCount(); n > 0 {
				unconfirmed += n
				if p := dq.decoy.priority(); first == nil || p > class {
					first, class = dq, p
				}
			}
		}
	}
	switch {
	case unconfirmed == 0 || asking:
	case unconfirmed >= maxUnconfirmed || hq.noTargetLeft(class):
		first.requestDecoy()
	default:
		rh.unconfirmed, rh.unconfirmedAt = unconfirmed, first
	}
	for _, dq := range slices.Clone(hq.unconfirmed) {
		class := dq.decoy.priority()
		if dq.decoy.suspectAt == 0 || rh.becameAcceptAll == nil && class != budget.Single && (!hq.noTargetLeft(class) || hq.pendingDecoyCount()+len(hq.inFlightGroups) > 0) {
			continue
		}
		dq.decoy.discard(rh.now)
		rh.releaseConfirmed(dq)
		hq.unconfirmed = without(hq.unconfirmed, dq)
	}
}

// noTargetLeft reports that no target is left that may soon be refused for the unconfirmed acceptances, the highest of which
// has this priority. A single call does not wait for other probes. A short job does not wait for a long job, which may not be
// served for hours.
func (hq *hostQueue) noTargetLeft(class budget.Class) bool {
	switch class {
	case budget.Single:
		return true
	case budget.ShortJob:
		return hq.queued[budget.ShortJob]+hq.queued[budget.Single] == 0
	}
	return hq.queued[budget.LongJob]+hq.queued[budget.ShortJob]+hq.queued[budget.Single] == 0
}

// unconfirmedCount is how many acceptances wait for a refusal that the domain queue's decoy may bring.
func (dq *domainQueue) unconfirmedCount() (n int) {
	if dq.decoy.suspectAt != 0 {
		return 0
	}
	for p, left := dq.decoy.waiting.first, dq.decoy.waiting.n; left > 0; p, left = p.next, left-1 {
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
func (rh *replyHandler) releaseConfirmed(dq *domainQueue) {
	if dq.decoy.state.busy() || dq.decoy.suspectAt != 0 {
		return
	}
	for n := dq.decoy.waiting.n; n > 0; n-- {
		p := dq.decoy.waiting.pop()
		switch {
		case rh.becameAcceptAll != nil:
			p.Ev.Append(*rh.becameAcceptAll)
		case dq.isConfirmed(p, rh.now):
			p.Ev.Append(dq.decoy.sighting)
		case rh.q.pastConfirming(p, rh.now):
			p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Host: dq.host, Reply: dq.decoy.sighting.Reply, Finding: silentAcceptance(), At: rh.q.confirmBy(p)})
		default:
			dq.decoy.waiting.push(p)
			continue
		}
		rh.finished = rh.q.advance(p, rh.now, false, rh.finished)
	}
	dq.removeIfEmpty()
}
