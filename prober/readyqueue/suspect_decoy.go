package readyqueue

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

// silentAcceptPause is how long a receiver that accepts without checking is paused: past the hour that it counts.
const silentAcceptPause = time.Hour

// silentAcceptance is the finding for a host that may have begun to accept every recipient: the waiting probes are retried.
func silentAcceptance() engine.Finding {
	return engine.Finding{Meaning: engine.RateLimited, Blame: engine.BlameUs, Rule: RuleSilentAcceptance}
}

// RuleSilentAcceptance is the rule of that finding.
const RuleSilentAcceptance = "default/accepts-silently"

// suspectDecoy is a decoy that was accepted under suspicion, and the queue's count of answers then.
type suspectDecoy struct {
	domainQueue *domainQueue
	accepted    uint64
}

// judgeDecoy judges a decoy that a host under suspicion has accepted. If the host refused it before, it has begun to accept
// every recipient, and is paused until its hour is over; else only a later refusal confirms the acceptance.
func (rh *replyHandler) judgeDecoy(dq *domainQueue, seen *engine.Sighting) {
	hq := dq.hostQueue
	switch {
	case seen.Finding.Meaning != engine.Accepted:
	case hq.overWithOthers && dq.decoy.sighting.RefusesUnknown():
		seen.Finding = silentAcceptance()
		acceptsAll := *seen
		rh.becameAcceptAll = &acceptsAll
		rh.s.closing = true
		rh.q.pause(rh.now.Add(rh.q.scaled(silentAcceptPause)))
		rh.q.env.Metrics.Actions.WithLabelValues(engine.ActionPause.String()).Inc()
	case hq.overLimit && hq.lastRefused <= rh.q.answersSeen: // no recipient behind it in the same transaction was refused
		dq.decoy.suspectAt = rh.q.answersSeen
		hq.suspectDecoys.push(suspectDecoy{dq, rh.q.answersSeen})
	}
}

// confirmSuspects confirms the suspect decoys that were accepted before a recipient was sent that is refused now. Those that no
// refusal has followed in time prove nothing. The mutex is held.
func (rh *replyHandler) confirmSuspects() {
	hq := rh.s.hostQueue
	for ; hq.suspectDecoys.n > 0; hq.suspectDecoys.pop() {
		s := hq.suspectDecoys.peek()
		d := &s.domainQueue.decoy
		until := d.sighting.At.Add(rh.q.scaled(confirmTime))
		switch {
		case d.suspectAt != s.accepted: // it was asked again since, or given up
		case rh.now.After(until):
			d.discard(until)
		case hq.confirmedUpTo >= s.accepted:
			d.suspectAt = 0
			rh.keepFact(s.domainQueue)
		default:
			return
		}
	}
}

// keepFact keeps what a decoy has shown as a fact of its domain at the host, if it is one.
func (rh *replyHandler) keepFact(dq *domainQueue) {
	if f, ok := cache.FactOf(&dq.decoy.sighting); ok {
		rh.facts = append(rh.facts, DomainFact{dq.domain, dq.host, f})
	}
}

// discard replaces a decoy's acceptance by silentAcceptance.
func (d *decoy) discard(at time.Time) {
	d.suspectAt, d.sighting.Finding, d.sighting.At = 0, silentAcceptance(), at
}
