package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	noon    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	retries = []time.Duration{time.Minute, 5 * time.Minute}
)

func unknownRoute(hosts ...string) *Route {
	return &Route{Fact: FactMX, Hosts: hosts, MX: hosts, Provider: &Provider{Probe: true}}
}

func replySighting(about Subject, host string, code int, m Meaning, b Blame) Sighting {
	return Sighting{Subject: about, Host: host, At: noon, Conn: 1,
		Reply:   Reply{Stage: StageRcpt, Code: code, Lines: []string{"text"}},
		Finding: Finding{Meaning: m, Blame: b, Rule: "test/rule"}}
}

func eventSighting(e Event, about Subject, host string) Sighting {
	return Sighting{Subject: about, Event: e, Host: host, At: noon}
}

func bannerReply(host string, code int, m Meaning) Sighting {
	s := replySighting(SubjectSession, host, code, m, BlameUs)
	s.Reply.Stage = StageBanner
	return s
}

var (
	accepted   = replySighting(SubjectTarget, "a", 250, Accepted, BlameNone)
	missing    = replySighting(SubjectTarget, "a", 550, NoMailbox, BlameRecipient)
	greylisted = replySighting(SubjectTarget, "a", 451, Greylisted, BlameSite)
	decoyNo    = replySighting(SubjectDecoy, "a", 550, NoMailbox, BlameRecipient)
	decoyYes   = replySighting(SubjectDecoy, "a", 250, Accepted, BlameNone)
)

func TestNext(t *testing.T) {
	ask := func(h string) Step { return Step{Kind: StepAsk, Host: h} }
	decoy := func(h string) Step { return Step{Kind: StepDecoy, Host: h} }
	namedDecoy := replySighting(SubjectDecoy, "a", 450, Temporary, BlameSite)
	namedDecoy.Finding.NamesUnknown = true
	namedTwice := namedDecoy
	namedTwice.Controlled = true
	wait := func(d time.Duration) Step { return Step{Kind: StepWait, Until: noon.Add(d)} }
	for name, c := range map[string]struct {
		seen []Sighting
		want Step
	}{
		"nothing seen":       {nil, ask("a")},
		"accepted, no decoy": {[]Sighting{accepted}, decoy("a")},
		"accepted, decoy of another host": {[]Sighting{replySighting(SubjectDecoy, "b", 550, NoMailbox,
			BlameRecipient), accepted}, decoy("a")},
		"accepted, decoy refused":      {[]Sighting{accepted, decoyNo}, Step{}},
		"accepted, decoy known before": {[]Sighting{decoyNo, accepted}, Step{}},
		"accepted, decoy greylisted": {[]Sighting{accepted,
			replySighting(SubjectDecoy, "a", 451, Greylisted, BlameSite)}, wait(time.Minute)},
		"accepted, decoy named in a 450": {[]Sighting{accepted, namedDecoy}, wait(time.Minute)},
		"accepted, decoy named twice":    {[]Sighting{accepted, namedTwice}, Step{}},
		"accepted, decoy unanswered": {[]Sighting{accepted, eventSighting(EventClosed, SubjectDecoy, "a")},
			Step{}},
		"refused":    {[]Sighting{missing}, Step{}},
		"greylisted": {[]Sighting{greylisted}, decoy("a")},
		"greylisted, decoy too": {[]Sighting{greylisted,
			replySighting(SubjectDecoy, "a", 451, Greylisted, BlameSite)}, wait(time.Minute)},
		"connection refused": {[]Sighting{eventSighting(EventConnectFailed, SubjectSession, "a")},
			ask("b")},
		"banner blocked": {[]Sighting{bannerReply("a", 554, Blocked)}, ask("b")},
		"no address is not a try": {[]Sighting{eventSighting(EventNoAddress, SubjectSession, "a"),
			eventSighting(EventTimeout, SubjectSession, "b"), eventSighting(EventTimeout, SubjectSession, "c")},
			ask("d")},
		"three hosts at most": {[]Sighting{eventSighting(EventTimeout, SubjectSession, "a"),
			eventSighting(EventTimeout, SubjectSession, "b"), eventSighting(EventTimeout, SubjectSession, "c")},
			Step{}},
		"all hosts busy": {[]Sighting{bannerReply("a", 421, Temporary),
			bannerReply("b", 421, RateLimited), bannerReply("c", 421, Temporary)}, wait(time.Minute)},
		"unanswered is asked again there": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a")}, ask("a")},
		"unanswered three times": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			eventSighting(EventClosed, SubjectTarget, "a"), eventSighting(EventClosed, SubjectTarget, "a")}, Step{}},
		"never past a recipient reply": {[]Sighting{replySighting(SubjectTarget, "a", 554, PolicyRefused,
			BlameSite)}, Step{}},
		"a sender put off is retried": {[]Sighting{replySighting(SubjectTarget, "a", 451, SenderRefused,
			BlameUs)}, wait(time.Minute)},
		"temporary is retried": {[]Sighting{replySighting(SubjectTarget, "a", 451, Temporary, BlameSite)},
			wait(time.Minute)},
		"no SMTPUTF8 ends": {[]Sighting{eventSighting(EventNoSMTPUTF8, SubjectTarget, "a")}, Step{}},
		"unanswered, then the door is shut": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			eventSighting(EventConnectFailed, SubjectSession, "a")}, ask("b")},
		"unanswered at two hosts": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			bannerReply("a", 421, RateLimited), eventSighting(EventClosed, SubjectTarget, "b")}, ask("b")},
		"unanswered at too many hosts": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			bannerReply("a", 421, RateLimited), eventSighting(EventTimeout, SubjectTarget, "b")}, Step{}},
		"unanswered, then every door shut": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			bannerReply("a", 421, RateLimited), bannerReply("b", 421, RateLimited), bannerReply("c", 421, RateLimited)},
			wait(time.Minute)},
		"unanswered, then no source left": {[]Sighting{eventSighting(EventClosed, SubjectTarget, "a"),
			eventSighting(EventSourceBlocked, SubjectSession, "a")}, Step{}},
		"a blocked source does not try more": {[]Sighting{eventSighting(EventSourceBlocked, SubjectSession, "a")},
			Step{}},
	} {
		t.Run(name, func(t *testing.T) {
			ev := Evidence{Route: unknownRoute("a", "b", "c", "d"), Seen: c.seen}
			require.Equal(t, c.want, Next(&ev, Policy{Schedule: retries}))
		})
	}
}

func TestNextStopsWaitingWithTheSchedule(t *testing.T) {
	ev := Evidence{Route: unknownRoute("a"), Seen: []Sighting{decoyNo, greylisted}, Attempts: 1}
	require.Equal(t, noon.Add(5*time.Minute), Next(&ev, Policy{Schedule: retries}).Until)
	ev.Attempts = 2
	require.Equal(t, StepDone, Next(&ev, Policy{Schedule: retries}).Kind)
}

func TestNextSkipsSMTPWhereItCannotHelp(t *testing.T) {
	for name, ev := range map[string]Evidence{
		"syntax":   {SyntaxBad: true},
		"nxdomain": {Route: &Route{Fact: FactNoDomain}},
		"servfail": {Route: &Route{Fact: FactServFail}},
		"accept-all": {Route: &Route{Fact: FactMX, Hosts: []string{"a"},
			Provider: &Provider{Probe: true, AcceptAll: true}}},
		"probe off": {Route: &Route{Fact: FactMX, Hosts: []string{"a"}, Provider: &Provider{}}},
	} {
		require.Equal(t, StepDone, Next(&ev, Policy{}).Kind, name)
	}
	require.Equal(t, StepResolve, Next(&Evidence{}, Policy{}).Kind)
}

func TestJudge(t *testing.T) {
	unknownWords := replySighting(SubjectTarget, "a", 550, MeaningUnknown, BlameSite)
	withNeighbour := unknownWords
	withNeighbour.NeighbourAccepted = true
	decoyWithNeighbour := withNeighbour
	decoyWithNeighbour.Subject = SubjectDecoy
	decoyControlled := replySighting(SubjectDecoy, "a", 550, MeaningUnknown, BlameSite)
	decoyControlled.Controlled = true
	decoyNamed := replySighting(SubjectDecoy, "a", 450, Temporary, BlameSite)
	decoyNamed.Finding.NamesUnknown = true
	decoyNamedTwice := decoyNamed
	decoyNamedTwice.Controlled = true
	named := replySighting(SubjectTarget, "a", 450, Temporary, BlameSite)
	named.Finding.NamesUnknown = true
	for name, c := range map[string]struct {
		seen   []Sighting
		flags  Flags
		status Status
		reason string
		score  uint8
	}{
		"accepted, decoy refused": {[]Sighting{accepted, decoyNo}, 0, Valid, "", 92},
		"decoy of another host": {[]Sighting{replySighting(SubjectDecoy, "b", 550, NoMailbox, BlameRecipient),
			accepted}, 0, Risky, "accepted_unconfirmed", 78},
		"catch-all":             {[]Sighting{accepted, decoyYes}, 0, Risky, "catch_all", 60},
		"catch-all before role": {[]Sighting{accepted, decoyYes}, FlagRole, Risky, "catch_all", 59},
		"decoy unclear": {[]Sighting{accepted, eventSighting(EventTimeout, SubjectDecoy, "a")}, 0,
			Risky, "accepted_unconfirmed", 75},
		"role":                 {[]Sighting{accepted, decoyNo}, FlagRole, Risky, "role_account", 74},
		"typo":                 {[]Sighting{accepted, decoyNo}, FlagTypo, Risky, "possible_typo", 44},
		"disposable, accepted": {[]Sighting{accepted, decoyNo}, FlagDisposable, Risky, "disposable", 44},
		"disposable, unreachable": {[]Sighting{eventSighting(EventTimeout, SubjectSession, "a")}, FlagDisposable,
			Risky, "disposable", 40},
		"disposable and typo, accepted": {[]Sighting{accepted, decoyNo}, FlagDisposable | FlagTypo, Risky,
			"possible_typo", 44},
		"disposable and typo, catch-all": {[]Sighting{accepted, decoyYes}, FlagDisposable | FlagTypo, Risky,
			"possible_typo", 44},
		"disposable and typo, unasked": {nil, FlagDisposable | FlagTypo, Risky, "possible_typo", 43},
		"disposable and typo, missing": {[]Sighting{missing}, FlagDisposable | FlagTypo, Invalid, "mailbox_not_found",
			4},
		"typo on a catch-all":    {[]Sighting{accepted, decoyYes}, FlagTypo, Risky, "catch_all", 58},
		"disposable, missing":    {[]Sighting{missing}, FlagDisposable, Invalid, "mailbox_not_found", 4},
		"missing":                {[]Sighting{missing}, 0, Invalid, "mailbox_not_found", 4},
		"missing on a catch-all": {[]Sighting{decoyYes, missing}, 0, Invalid, "mailbox_not_found", 6},
		"disabled": {[]Sighting{replySighting(SubjectTarget, "a", 550, MailboxDisabled,
			BlameRecipient)}, 0, Invalid, "mailbox_disabled", 9},
		"full": {[]Sighting{replySighting(SubjectTarget, "a", 452, MailboxFull,
			BlameRecipient)}, 0, Risky, "mailbox_full", 55},
		"no mailbox, but our fault": {[]Sighting{replySighting(SubjectTarget, "a", 550, NoMailbox, BlameUs)}, 0,
			Unknown, "temporary_error", 35},
		"no mailbox, temporary code": {[]Sighting{replySighting(SubjectTarget, "a", 450, NoMailbox,
			BlameRecipient)}, 0, Unknown, "temporary_error", 35},
		"no mailbox at the banner": {[]Sighting{bannerReply("a", 550, NoMailbox)}, 0, Unknown, "temporary_error",
			35},
		"blocked": {[]Sighting{replySighting(SubjectTarget, "a", 550, Blocked, BlameUs)}, 0,
			Unknown, "blocked", 40},
		"sender refused": {[]Sighting{replySighting(SubjectTarget, "a", 550, SenderRefused, BlameUs)},
			0, Unknown, "blocked", 40},
		"unknown words":             {[]Sighting{unknownWords}, 0, Unknown, "unclear_refusal", 35},
		"unknown words, neighbours": {[]Sighting{withNeighbour}, 0, Unknown, "unclear_refusal", 38},
		"relay denied": {[]Sighting{replySighting(SubjectTarget, "a", 554, RelayDenied, BlameSite)},
			0, Unknown, "relay_denied", 30},
		"sender put off": {[]Sighting{replySighting(SubjectTarget, "a", 451, SenderRefused, BlameUs)},
			0, Unknown, "blocked", 40},
		"decoy named in a 450":       {[]Sighting{accepted, decoyNamed}, 0, Risky, "accepted_unconfirmed", 75},
		"decoy named in a 450 twice": {[]Sighting{accepted, decoyNamedTwice}, 0, Valid, "", 92},
		"decoy refused in unclear words": {[]Sighting{accepted, decoyWithNeighbour}, 0, Risky, "accepted_unconfirmed",
			75},
		"unclear, accepted after it": {[]Sighting{accepted, decoyControlled}, 0, Valid, "", 92},
		"decoy refused, but our fault": {[]Sighting{accepted,
			replySighting(SubjectDecoy, "a", 550, NoMailbox, BlameUs)}, 0, Risky, "accepted_unconfirmed", 75},
		"450 naming an unknown user": {[]Sighting{named}, 0, Unknown, "temporary_error", 20},
		"greylisted":                 {[]Sighting{greylisted}, 0, Unknown, "greylisted", 50},
		"rate limited at every banner": {[]Sighting{bannerReply("a", 421, RateLimited)}, 0, Unknown, "rate_limited",
			45},
		"a refusal says more than quiet": {[]Sighting{bannerReply("a", 554, Blocked),
			eventSighting(EventTimeout, SubjectSession, "b")}, 0, Unknown, "blocked", 40},
		"connection refused": {[]Sighting{eventSighting(EventConnectFailed, SubjectSession, "a")}, 0,
			Unknown, "connection_failed", 30},
		"silence": {[]Sighting{eventSighting(EventTimeout, SubjectSession, "a")}, 0, Unknown,
			"timeout", 40},
		"out of step": {[]Sighting{eventSighting(EventOutOfStep, SubjectSession, "a")}, 0, Unknown,
			"protocol_error", 30},
		"no SMTPUTF8": {[]Sighting{eventSighting(EventNoSMTPUTF8, SubjectTarget, "a")}, 0, Unknown,
			"smtputf8_unsupported", 35},
		"no SMTPUTF8 behind a busy host": {[]Sighting{bannerReply("a", 421, Temporary),
			eventSighting(EventNoSMTPUTF8, SubjectTarget, "b")}, 0, Unknown, "smtputf8_unsupported", 35},
		"private addresses only": {[]Sighting{eventSighting(EventRefusedHost, SubjectSession, "a"),
			eventSighting(EventNoAddress, SubjectSession, "b")}, 0, Invalid, "unroutable_mx", 4},
		"one host not looked up": {[]Sighting{eventSighting(EventRefusedHost, SubjectSession, "a"),
			eventSighting(EventHostServFail, SubjectSession, "b")}, 0, Unknown, "dns_error", 30},
		"IPv6 only, and we have none": {[]Sighting{eventSighting(EventNoEgress, SubjectSession, "a")}, 0, Unknown,
			"connection_failed", 30},
		"every source quarantined": {[]Sighting{eventSighting(EventSourceBlocked, SubjectSession, "a")}, 0,
			Unknown, "blocked", 40},
		"nothing seen": {nil, 0, Unknown, "smtp_not_checked", 50},
	} {
		t.Run(name, func(t *testing.T) {
			ev := Evidence{Route: unknownRoute("a", "b"), Flags: c.flags, Seen: c.seen}
			v := Judge(&ev, Policy{}, noon)
			require.Equal(t, c.status, v.Status)
			require.Equal(t, c.reason, v.Reason.String())
			require.Equal(t, c.score, v.Score)
			require.NotEmpty(t, v.Rule)
		})
	}
}

func TestJudgeByRouteAlone(t *testing.T) {
	for f, want := range map[Fact]string{FactNoDomain: "domain_not_found", FactNullMX: "null_mx",
		FactNoServer:   "no_mail_server",
		FactUnroutable: "unroutable_mx", FactServFail: "dns_error", FactDNSTimeout: "dns_error",
		FactUnasked: "smtp_not_checked"} {
		ev := Evidence{Route: &Route{Fact: f, Provider: &Provider{Probe: true}}}
		require.Equal(t, want, Judge(&ev, Policy{}, noon).Reason.String(), f.String())
	}
	require.Equal(t, "invalid_syntax", Judge(&Evidence{SyntaxBad: true}, Policy{}, noon).Reason.String())
	ev := Evidence{Route: &Route{Fact: FactMX, Hosts: []string{"a"},
		Provider: &Provider{ID: "yahoo", Name: "Yahoo", Probe: true, AcceptAll: true}}}
	require.Equal(t, Risky, Judge(&ev, Policy{}, noon).Status)
}

func TestSMTPValidNeedsAHostThatRefuses(t *testing.T) {
	for _, c := range []struct {
		decoy Sighting
		want  bool
	}{{decoyNo, true}, {decoyYes, false}, {eventSighting(EventTimeout, SubjectDecoy, "a"), false}} {
		ev := Evidence{Route: unknownRoute("a"), Flags: FlagRole, Seen: []Sighting{accepted, c.decoy}}
		v := Judge(&ev, Policy{}, noon)
		require.Equal(t, c.want, v.SMTPValid)
	}
}

// Any evidence has a verdict that its own sightings justify, and Next ends for any peer.
func TestVerdictInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := Evidence{Route: unknownRoute("a", "b", "c", "d"), Flags: Flags(rapid.IntRange(0, 15).Draw(t, "flags"))}
		for steps := 0; ; steps++ {
			if steps > 40 {
				t.Fatalf("no end: %+v", ev.Seen)
			}
			step := Next(&ev, Policy{})
			if step.Kind == StepDone || step.Kind == StepWait {
				break
			}
			ev.Append(drawSighting(t, step))
		}
		checkVerdict(t, &ev, Judge(&ev, Policy{}, noon))
	})
}

func drawSighting(t *rapid.T, step Step) Sighting {
	about := SubjectTarget
	if step.Kind == StepDecoy {
		about = SubjectDecoy
	}
	e := Event(rapid.IntRange(0, int(EventInternal)).Draw(t, "event"))
	if e != EventReply {
		if about == SubjectTarget && rapid.Bool().Draw(t, "before RCPT") {
			about = SubjectSession
		}
		return eventSighting(e, about, step.Host)
	}
	code := rapid.SampledFrom([]int{250, 421, 450, 550}).Draw(t, "code")
	m := Meaning(rapid.IntRange(0, int(ProtocolFault)).Draw(t, "meaning"))
	if (m == Accepted) != (code == 250) {
		m, code = PolicyRefused, 550
	}
	return replySighting(about, step.Host, code, m, Blame(rapid.IntRange(1, 4).Draw(t, "blame")))
}

func checkVerdict(t *rapid.T, ev *Evidence, v Verdict) {
	target, ok := ev.answer(SubjectTarget, "")
	if v.Status == Valid && (!ok || target.Finding.Meaning != Accepted || ev.catchAll(target.Host) != No) {
		t.Fatalf("VALID without evidence: %+v", ev.Seen)
	}
	if v.Status == Invalid && v.Reason != ReasonUnroutableMX &&
		(!ok || !target.Reply.Permanent() || target.Finding.Blame != BlameRecipient) {
		t.Fatalf("INVALID without evidence: %+v", ev.Seen)
	}
	if v.Status == Unknown && v.Reason == ReasonNone {
		t.Fatal("UNKNOWN without a reason")
	}
}
