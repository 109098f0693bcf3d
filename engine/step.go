package engine

import "time"

// Policy is what the caller wants: how far to go, and how long to wait.
type Policy struct {
	NoSMTP      bool            // only syntax, DNS, lists and cached results
	Details     bool            // texts and names of sources in Verdict.Details; everything else is always filled
	CallerWaits bool            // a caller waits: a failure that may be our own is reported, not retried
	Schedule    []time.Duration // waits after each deferred attempt; its length bounds the retries
}

// StepKind says what to do next for one address.
type StepKind uint8

// The steps; the zero value ends.
const (
	StepDone    StepKind = iota
	StepResolve          // find the route of the domain
	StepAsk              // RCPT TO the target at Step.Host
	StepDecoy            // RCPT TO a decoy of the domain at Step.Host, in the same session
	StepWait             // come back at Step.Until
)

// Step is the next thing to do for one address.
type Step struct {
	Kind  StepKind
	Host  string
	Until time.Time
}

// maxHosts is how many hosts of a route are connected to for one address; hosts without a usable address do not count.
const maxHosts = 3

// maxUnanswered bounds how often an unanswered target is probed again. A timeout counts twice: it takes half a minute.
const maxUnanswered = 3

// Next decides the next step for an address. It is pure: the same evidence and time give the same step. A step
// is never repeated without new evidence, so a loop over Next ends.
func Next(ev *Evidence, p Policy) Step {
	if ev.SyntaxBad {
		return Step{}
	}
	if ev.Route == nil || ev.Route.Fact == FactUnasked {
		return Step{Kind: StepResolve}
	}
	if decidedWithoutAsking(ev, p) {
		return Step{}
	}
	target, ok := ev.answer(SubjectTarget, "")
	switch {
	case !ok:
		return nextAsk(ev, p)
	case target.Finding.Meaning == Accepted:
		return afterAcceptance(ev, p, target)
	case target.Deferred():
		return afterDeferral(ev, p, target)
	}
	return Step{}
}

// decidedWithoutAsking reports whether no SMTP session can or may add to what is known.
func decidedWithoutAsking(ev *Evidence, p Policy) bool {
	prov := ev.Route.Provider
	return !ev.Route.Fact.Routable() || p.NoSMTP || !prov.Probe || prov.AcceptAll || breaksMailboxRule(ev)
}

func breaksMailboxRule(ev *Evidence) bool {
	prov := ev.Route.Provider
	return prov != nil && prov.Mailbox != nil && prov.Mailbox.Breaks(ev.Address)
}

// nextAsk finds the host to probe while the target has no answer: the same again after an unanswered RCPT, the next
// one after a failure before RCPT (RFC 5321 section 5.1). A host that closed on the target and then let no session
// begin has failed like any other; unanswered probes are counted over all hosts.
func nextAsk(ev *Evidence, p Policy) Step {
	host, weight := ev.unansweredTarget()
	if weight >= maxUnanswered || ev.has(EventNoSMTPUTF8) {
		return Step{}
	}
	if weight > 0 && !ev.failed(host) {
		return Step{Kind: StepAsk, Host: host}
	}
	if ev.has(EventSourceBlocked) || ev.has(EventInternal) {
		return Step{}
	}
	tried := 0
	for _, h := range ev.Route.Hosts {
		switch {
		case ev.hasNoAddress(h):
		case ev.failed(h):
			tried++
		case tried < maxHosts:
			return Step{Kind: StepAsk, Host: h}
		}
	}
	return waitForSession(ev, p)
}

// afterAcceptance probes a decoy if none was probed at the same host; a deferred decoy is probed again later.
func afterAcceptance(ev *Evidence, p Policy, target *Sighting) Step {
	if !ev.decoyAsked(target.Host) {
		return Step{Kind: StepDecoy, Host: target.Host}
	}
	if decoy, ok := ev.answer(SubjectDecoy, target.Host); ok && decoy.Deferred() && !decoy.RefusesUnknown() {
		return waitAfter(ev, p, decoy.At)
	}
	return Step{}
}

// afterDeferral probes a decoy with a greylisted target, so that both pass greylisting together, then waits by the
// schedule. Some receivers greylist in the words of an unknown user.
func afterDeferral(ev *Evidence, p Policy, target *Sighting) Step {
	if (target.Finding.Meaning == Greylisted || target.NamesUnknown()) && !ev.decoyAsked(target.Host) {
		return Step{Kind: StepDecoy, Host: target.Host}
	}
	return waitAfter(ev, p, target.At)
}

// maxOwnFaultRetries is how many attempts may end in failures that may be our own; after that the failure is reported.
const maxOwnFaultRetries = 2

// waitForSession retries later when every host failed and the failure was a deferral or may be our own.
func waitForSession(ev *Evidence, p Policy) Step {
	worst, ok := ev.sessionFailure()
	switch {
	case !ok:
		return Step{}
	case worst.Event != EventReply && ev.maybeOurFault() && !p.CallerWaits && ev.Attempts < maxOwnFaultRetries:
		return waitAfter(ev, p, ev.Seen[len(ev.Seen)-1].At)
	case !worst.Deferred():
		return Step{}
	}
	return waitAfter(ev, p, worst.At)
}

func waitAfter(ev *Evidence, p Policy, at time.Time) Step {
	if ev.Attempts >= len(p.Schedule) {
		return Step{}
	}
	return Step{Kind: StepWait, Until: at.Add(p.Schedule[ev.Attempts])}
}

// Deferred reports whether s is a reply that a later attempt may change. A temporary refusal of the sender is one: the
// receiver's callout to our domain may succeed a minute later.
func (s *Sighting) Deferred() bool {
	if s.Event != EventReply {
		return false
	}
	switch s.Finding.Meaning {
	case Greylisted, RateLimited, Temporary:
		return true
	case SenderRefused:
		return s.Reply.Code/100 == 4
	}
	return false
}
