package engine

import (
	"time"

	"probity/engine/redact"
)

// Bucket is the status that a reason belongs to.
func (r Reason) Bucket() Status {
	switch {
	case r == ReasonNone:
		return Valid
	case r <= ReasonLowQuality:
		return Risky
	case r <= ReasonMailboxDisabled:
		return Invalid
	}
	return Unknown
}

// Judge turns evidence into a verdict. It is total: any evidence, even none, has one, and what is not proven is
// UNKNOWN. The order of decision is INVALID, disposable, accept-all provider, full mailbox, UNKNOWN, the other risks,
// VALID.
func Judge(ev *Evidence, p Policy, now time.Time) Verdict {
	if ev.Route == nil {
		unasked := *ev
		unasked.Route = &Route{}
		ev = &unasked
	}
	v := Verdict{Flags: ev.Flags, MX: ev.Route.MX, VerifiedAt: now}
	nameProvider(&v, ev)
	v.Details.Attempts = ev.Attempts + min(1, len(ev.Seen))
	d := decide(ev, p)
	v.Reason, v.Status, v.Rule = d.reason, d.reason.Bucket(), d.rule
	describe(&v, ev, p, d)
	v.Basis = basisOf(ev, &v, &d)
	v.Score = Score(&v, now)
	return v
}

// VerdictFor builds the verdict of a reason alone, for rows without evidence.
func VerdictFor(r Reason, rule string, flags Flags, now time.Time) Verdict {
	v := Verdict{Status: r.Bucket(), Reason: r, Rule: rule, Flags: flags, VerifiedAt: now}
	v.Score = Score(&v, now)
	return v
}

// decision is a reason with what it rests on.
type decision struct {
	reason Reason
	rule   string
	from   *Sighting
}

func decide(ev *Evidence, p Policy) decision {
	if d, ok := decideBySyntaxAndDNS(ev); ok {
		return d
	}
	target, answered := ev.answer(SubjectTarget, "")
	if answered && target.Condemns() {
		return condemn(target)
	}
	switch {
	case ev.Flags.Has(FlagDisposable | FlagTypo): // a typo at a sign-up form is the likelier cause
		return decision{reason: ReasonPossibleTypo, rule: "list/typo"}
	case ev.Flags.Has(FlagDisposable):
		return decision{reason: ReasonDisposable, rule: "list/disposable"}
	}
	if prov := ev.Route.Provider; prov != nil && prov.AcceptAll {
		return decision{reason: ReasonAcceptAllProvider, rule: prov.ID + "/accept-all"}
	}
	if !answered {
		return decideUnasked(ev, p)
	}
	return decideByAnswer(ev, target)
}

// decideBySyntaxAndDNS decides what needs no mail server. A failed DNS lookup is not decided here: a list may still
// decide.
func decideBySyntaxAndDNS(ev *Evidence) (decision, bool) {
	if ev.SyntaxBad {
		return decision{reason: ReasonInvalidSyntax, rule: "syntax/rfc5321"}, true
	}
	switch ev.Route.Fact {
	case FactNoDomain:
		return decision{reason: ReasonDomainNotFound, rule: "dns/nxdomain"}, true
	case FactNullMX:
		return decision{reason: ReasonNullMX, rule: "dns/null-mx"}, true
	case FactNoServer:
		return decision{reason: ReasonNoMailServer, rule: "dns/no-server"}, true
	case FactUnroutable:
		return decision{reason: ReasonUnroutableMX, rule: "dns/unroutable"}, true
	}
	if breaksMailboxRule(ev) {
		return decision{reason: ReasonProviderSyntax, rule: ev.Route.Provider.ID + "/mailbox-rule"}, true
	}
	if ev.unroutable() {
		return decision{reason: ReasonUnroutableMX, rule: "dns/unroutable"}, true
	}
	return decision{}, false
}

// restsOnDNS reports whether a verdict with this reason, without a session, follows from the route alone.
func (r Reason) restsOnDNS() bool {
	switch r {
	case ReasonDomainNotFound, ReasonNullMX, ReasonNoMailServer, ReasonUnroutableMX, ReasonProviderSyntax,
		ReasonAcceptAllProvider, ReasonDNSError:
		return true
	}
	return false
}

// unroutable reports whether every host of the route was looked up, and none has an address that mail could go to.
func (ev *Evidence) unroutable() bool {
	for _, h := range ev.Route.Hosts {
		if !ev.hasNoAddress(h) {
			return false
		}
	}
	return len(ev.Route.Hosts) > 0
}

// condemn decides for a target whose reply makes it INVALID.
func condemn(target *Sighting) decision {
	d := decision{reason: ReasonMailboxNotFound, rule: target.Finding.Rule, from: target}
	if target.Finding.Meaning == MailboxDisabled {
		d.reason = ReasonMailboxDisabled
	}
	return d
}

// catchAll says whether the decoy at host was accepted.
func (ev *Evidence) catchAll(host string) Tri {
	s, ok := ev.answer(SubjectDecoy, host)
	switch {
	case !ok:
		return NotKnown
	case s.Finding.Meaning == Accepted:
		return Yes
	case s.RefusesUnknown():
		return No
	}
	return NotKnown
}

// decideUnasked decides for targets that never got a reply.
func decideUnasked(ev *Evidence, p Policy) decision {
	switch ev.Route.Fact {
	case FactServFail, FactDNSTimeout:
		return decision{reason: ReasonDNSError, rule: "dns/" + ev.Route.Fact.String()}
	}
	if p.NoSMTP || (ev.Route.Provider != nil && !ev.Route.Provider.Probe) {
		return decision{reason: ReasonSMTPNotChecked, rule: "policy/not-probed"}
	}
	s, ok := ev.sessionFailure()
	if !ok {
		return decision{reason: ReasonSMTPNotChecked, rule: "policy/not-probed"}
	}
	if s.Event == EventReply {
		return decideByRefusal(s)
	}
	return decision{reason: eventReason(s.Event), rule: "session/" + s.Event.String(), from: s}
}

// RuleSourceBlocked is the rule of a verdict without a probe: the source that was to probe is quarantined at this
// receiver, or everywhere. Another source may probe.
const RuleSourceBlocked = "session/source-blocked"

func eventReason(e Event) Reason {
	switch e {
	case EventTimeout:
		return ReasonTimeout
	case EventOutOfStep:
		return ReasonProtocolError
	case EventNoSMTPUTF8:
		return ReasonSMTPUTF8Unsupported
	case EventHostServFail:
		return ReasonDNSError
	case EventSourceBlocked:
		return ReasonBlocked
	case EventInternal:
		return ReasonInternalError
	}
	return ReasonConnectionFailed
}

// decideByAnswer decides for targets that got a reply which does not condemn them.
func decideByAnswer(ev *Evidence, target *Sighting) decision {
	if target.Finding.Meaning == MailboxFull {
		return decision{reason: ReasonMailboxFull, rule: target.Finding.Rule, from: target}
	}
	if target.Finding.Meaning != Accepted {
		return decideByRefusal(target)
	}
	d := decision{from: target}
	d.reason, d.rule = risk(ev, target)
	return d
}

// risk weighs an acceptance: the reasons in the order of the table, none of them means VALID.
func risk(ev *Evidence, target *Sighting) (Reason, string) {
	switch ev.catchAll(target.Host) {
	case Yes:
		return ReasonCatchAll, "decoy/accepted"
	case NotKnown:
		return ReasonAcceptedUnconfirmed, "decoy/unclear"
	}
	switch {
	case ev.Flags.Has(FlagRole):
		return ReasonRoleAccount, "list/role"
	case ev.Flags.Has(FlagTypo):
		return ReasonPossibleTypo, "list/typo"
	case ev.Route.Provider.Parking:
		return ReasonLowQuality, ev.Route.Provider.ID + "/parking"
	}
	return ReasonNone, "decoy/refused"
}

// decideByRefusal maps the meaning of a refusal to the reason of an UNKNOWN.
func decideByRefusal(s *Sighting) decision {
	return decision{reason: RefusalReason(s.Finding.Meaning), rule: s.Finding.Rule, from: s}
}

// RefusalReason is the reason that a refusal gives when it does not condemn the mailbox.
func RefusalReason(m Meaning) Reason {
	switch m {
	case Greylisted:
		return ReasonGreylisted
	case RateLimited:
		return ReasonRateLimited
	case Blocked, SenderRefused, PolicyRefused:
		return ReasonBlocked
	case Temporary:
		return ReasonTemporaryError
	case RelayDenied:
		return ReasonRelayDenied
	case MeaningUnknown:
		return ReasonUnclearRefusal
	case NoMailbox, MailboxDisabled, MailboxFull:
		// Words about the recipient in a reply that may not condemn: a temporary code, or another stage.
		return ReasonTemporaryError
	}
	return ReasonProtocolError
}

// nameProvider fills in the provider if the route has one.
func nameProvider(v *Verdict, ev *Evidence) {
	if !ev.Route.Fact.Routable() || ev.Route.Provider == nil {
		return
	}
	v.ProviderID, v.ProviderName = ev.Route.Provider.ID, ev.Route.Provider.Name
	if v.ProviderName == "" {
		v.ProviderName = "other"
	}
}

// describe fills in the details of the verdict.
func describe(v *Verdict, ev *Evidence, p Policy, d decision) {
	target, answered := ev.answer(SubjectTarget, "")
	if !answered {
		v.Details.CatchAll = ev.catchAll("") // by earlier checks of the domain
	} else {
		v.Details.CatchAll = ev.catchAll(target.Host)
		v.SMTPValid = target.Finding.Meaning == Accepted && v.Details.CatchAll == No
		v.VerifiedAt = target.At
		if d.from == nil {
			d.from = target
		}
	}
	if len(ev.Seen) == 0 && d.reason.restsOnDNS() && !ev.Route.FoundAt.IsZero() {
		v.VerifiedAt = ev.Route.FoundAt
	}
	v.Details.Full, v.Details.Disabled = d.reason == ReasonMailboxFull, d.reason == ReasonMailboxDisabled
	if d.from == nil {
		return
	}
	v.VerifiedAt = d.from.At
	v.Details.Host, v.Details.Stage = d.from.Host, d.from.Reply.Stage
	v.Details.Code, v.Details.Enhanced = d.from.Reply.Code, d.from.Reply.Enhanced
	if answered {
		v.Details.Witness = ev.Witness
	}
	if !p.Details {
		return
	}
	v.Details.Message = redact.Text(d.from.Reply.Text(), ev.Address.Local())
	if w := v.Details.Witness; w != nil {
		shown := *w
		shown.Message, shown.Reply.Lines = redact.Text(w.Reply.Text(), w.Local), nil
		v.Details.Witness = &shown
	}
}
