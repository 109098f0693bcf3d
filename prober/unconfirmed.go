package prober

import (
	"slices"
	"time"

	"probity/engine"
)

// Some receivers react to many unknown recipients by accepting every recipient, without a word, until the hour is over. What a
// decoy showed in the morning then proves nothing about an acceptance of now. So where a receiver may do that, and half of an
// hour's refusals have been heard, an acceptance is confirmed only when the host has refused a recipient after it: another target,
// or a decoy, which is asked when several wait in vain, or no other target of their kind of job is left to ask, or before the host
// is left alone as a tarpit (tarpit.go). "After" is the host's order: later in the same transaction, or in one that was sent when
// the acceptance had been heard. Two connections are heard in any order: so where recipients under way may make up half of an
// hour's refusals, an acceptance waits until all that were sent before it was heard have been heard too, and is left unconfirmed or is confirmed
// then. What is under way over other routes to the same address comes at a time that is not known here: it counts as heard for
// an acceptance, but not for a decoy that nothing was known of, or a busy catch-all host would never be called one.
// An acceptance stays unconfirmed when the hour is over: the refusals of the next prove nothing about the silence of the last.
// An accepted decoy is an acceptance like any other (suspect_decoy.go): what one has shown without suspicion, or before a refusal, stays.

// mayAcceptSilently reports a receiver that may accept silently: one that is known to, and any that is unknown.
func (q *readyQueue) mayAcceptSilently() bool { return q.unknownProvider || q.provider.AcceptsSilently }

// updateSuspicion notes whether so many refusals have been heard of the host queue's host in this hour, over its route or at its address, that
// its acceptances are left unconfirmed, or would be if all who are under way were refused; and the last refusal of this transaction. The
// mutex is held.
func (rh *replyHandler) updateSuspicion() {
	q, hq := rh.l, rh.s.hostQueue
	limit := q.provider.Limits.RefusalsPerHour / 2
	if !q.mayAcceptSilently() || limit == 0 {
		return
	}
	settled, others := q.budget.refusalWindow.settledCount(rh.now), 0
	if addrLimit := rh.s.addressLimit; addrLimit != nil {
		addrLimit.mu.Lock()
		settled = max(settled, addrLimit.budget.refusalWindow.settledCount(rh.now))
		others = max(0, addrLimit.budget.refusalWindow.reserved-hq.recipientsInFlight())
		addrLimit.mu.Unlock()
	}
	hq.overLimit, hq.overWithOthers, hq.overWithInFlight = settled >= limit, settled+others >= limit, settled+others+hq.recipientsInFlight() >= limit
	hq.lastStart = q.answersSeen
	for k, a := range rh.s.seen {
		if a.finding.Blame == engine.BlameRecipient && a.reply.Permanent() || a.finding.NamesUnknown {
			hq.confirmedUpTo, hq.lastRefused, rh.refusing = max(hq.confirmedUpTo, rh.s.answersAtSend), q.answersSeen+uint64(k)+1, true
		}
	}
}

// settledCount is how many events of the window are over and done with.
func (w *window) settledCount(now time.Time) int {
	w.advance(now)
	return w.used
}

// inFlightGroup is a group of transactions that was sent and is not heard yet.
type inFlightGroup struct {
	answersAtSend uint64 // the queue's count of answers when it was taken
	n             int    // its recipients
}

// markSent notes that the session's transactions are sent.
func (hq *hostQueue) markSent(s *session) {
	hq.inFlightGroups = append(hq.inFlightGroups, inFlightGroup{s.answersAtSend, len(s.recipients)})
}

// markReplied notes that they are heard, or lost.
func (hq *hostQueue) markReplied(s *session) {
	if i := slices.Index(hq.inFlightGroups, inFlightGroup{s.answersAtSend, len(s.recipients)}); i >= 0 {
		hq.inFlightGroups = slices.Delete(hq.inFlightGroups, i, i+1)
	}
}

// recipientsInFlight is how many recipients have been sent and not heard.
func (hq *hostQueue) recipientsInFlight() (n int) {
	for _, v := range hq.inFlightGroups {
		n += v.n
	}
	return n
}

// earlierInFlight reports that somebody is under way who was sent before the probe's acceptance was heard, and whose refusal may have come
// before it. Volleys stand in the order of their counts.
func (hq *hostQueue) earlierInFlight(p *probe) bool {
	return hq.overWithInFlight && len(hq.inFlightGroups) > 0 && hq.inFlightGroups[0].answersAtSend < p.lastAnswer
}

// suspicion is how an acceptance was heard: whether its host may have fallen silent by then.
type suspicion uint8

const (
	suspicionNone suspicion = iota // no: it had refused too few
	suspicionLow                   // only if those who were under way had been refused by then
	suspicionHigh                  // yes
)

// forEngine is the same in the engine's words.
func (m suspicion) forEngine() engine.Suspicion { return engine.Suspicion(m) }

func (hq *hostQueue) suspicion() suspicion {
	switch {
	case hq.overWithOthers:
		return suspicionHigh
	case hq.overWithInFlight && len(hq.inFlightGroups) > 0:
		return suspicionLow
	}
	return suspicionNone
}

// confirmTime is how soon after an acceptance a refusal must come to prove it: later the host's hour may be over, and with it its
// silence. Who was not proved by then is asked again.
const confirmTime = 2 * time.Minute

// confirmBy is until when a refusal can prove an acceptance.
func (q *readyQueue) confirmBy(p *probe) time.Time {
	return q.prober.created.Add(p.answeredAfter + q.scaled(confirmTime))
}

// pastConfirming reports an acceptance that nothing can prove any more.
func (q *readyQueue) pastConfirming(p *probe, now time.Time) bool {
	return p.suspicion != suspicionNone && now.After(q.confirmBy(p))
}

// isConfirmed reports that what the domain queue's decoy has shown may be used together with the acceptance of a probe.
func (q *readyQueue) isConfirmed(p *probe, dq *domainQueue, now time.Time) bool {
	hq := dq.hostQueue
	switch {
	case dq.decoy.suspectAt != 0:
		return false
	case !dq.decoy.refusesUnknown() || p.suspicion == suspicionNone:
		return true
	case q.pastConfirming(p, now):
		return false
	case hq.confirmedUpTo >= p.lastAnswer || p.lastAnswer > hq.lastStart && hq.lastRefused > p.lastAnswer:
		return true
	case hq.overWithOthers:
		p.suspicion = suspicionHigh
	case p.suspicion == suspicionLow && !hq.earlierInFlight(p):
		p.suspicion = suspicionNone
		return true
	}
	return false
}

// refusesUnknown reports a decoy whose last answer showed that the host refuses unknown recipients.
func (d *decoy) refusesUnknown() bool { return d.sighting.RefusesUnknown() }

// leaveUnconfirmed lets an accepted probe wait until its host refuses somebody.
func (q *readyQueue) leaveUnconfirmed(p *probe, dq *domainQueue) {
	p.domainQueue = dq
	dq.decoy.waiting.push(p)
	if !slices.Contains(dq.hostQueue.unconfirmed, dq) {
		dq.hostQueue.unconfirmed = append(dq.hostQueue.unconfirmed, dq)
	}
}

// resolveUnconfirmed ends the waits that this transaction has answered, and has a decoy asked for those that it has not. Who only waits for
// others to be heard is not unconfirmed yet. The mutex is held.
func (rh *replyHandler) resolveUnconfirmed() {
	hq := rh.s.hostQueue
	if len(hq.unconfirmed) == 0 {
		return
	}
	waiting := hq.unconfirmed
	hq.unconfirmed = nil
	unconfirmed, asking, first, class := 0, false, (*domainQueue)(nil), bulk
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
		rh.l.requestDecoy(first)
	default:
		rh.unconfirmed, rh.unconfirmedAt = unconfirmed, first
	}
	rh.giveUpUnconfirmed()
}

// noTargetLeft reports that no target will soon be refused for the unconfirmed ones, the highest of which has this priority. A single waits
// for no other probe, and a short job not for a long one, whose turn at the host may be hours away.
func (hq *hostQueue) noTargetLeft(class priority) bool {
	switch class {
	case single:
		return true
	case short:
		return hq.queued[short]+hq.queued[single] == 0
	}
	return hq.queued[bulk]+hq.queued[short]+hq.queued[single] == 0
}

// unconfirmedCount is how many acceptances wait for a refusal that the domain queue's decoy may bring.
func (dq *domainQueue) unconfirmedCount() (n int) {
	if dq.decoy.suspectAt != 0 {
		return 0
	}
	for p := dq.decoy.waiting.first; p != nil; p = p.next {
		if p.suspicion == suspicionHigh {
			n++
		}
	}
	return n
}

// maxUnconfirmed is how many acceptances may wait for a refusal of a target before a decoy is spent on them.
const maxUnconfirmed = 8

// releaseConfirmed sends on those of a domain queue who are unconfirmed no more: the host has refused somebody since, or has shown its mask.
func (rh *replyHandler) releaseConfirmed(dq *domainQueue) {
	if dq.decoy.state.busy() || dq.decoy.suspectAt != 0 {
		return
	}
	for n := dq.decoy.waiting.n; n > 0; n-- {
		p := dq.decoy.waiting.pop()
		switch {
		case rh.becameAcceptAll != nil:
			p.ev.Append(*rh.becameAcceptAll)
		case rh.l.isConfirmed(p, dq, rh.now):
			p.ev.Append(dq.decoy.sighting)
		case rh.l.pastConfirming(p, rh.now):
			p.ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Host: dq.host, Reply: dq.decoy.sighting.Reply, Finding: silentAcceptance(), At: rh.l.confirmBy(p)})
		default:
			dq.decoy.waiting.push(p)
			continue
		}
		rh.finished = rh.l.advance(p, rh.now, false, rh.finished)
	}
	rh.l.removeIfEmpty(dq)
}
