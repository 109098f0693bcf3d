package engine

import (
	"time"

	"probity/engine/basis"
	"probity/engine/control"
)

// The score is a continuous signal within the bucket of the status: the figure of the reason, plus a few points for
// each piece of evidence that makes the verdict more or less certain. Every point comes from the table below; nothing
// is clamped, so that the parts always add up. Fresher evidence and a closer check never lower a VALID and never raise
// an INVALID.

// Part is one summand of a score.
type Part struct {
	Name   string
	Points int
}

// Band is the least and the greatest score that a reason can have.
type Band struct{ Low, High uint8 }

// figures are the scores of reasons without further evidence.
var figures = [...]uint8{
	ReasonNone: 98, ReasonDisposable: 40, ReasonAcceptAllProvider: 65, ReasonCatchAll: 60,
	ReasonAcceptedUnconfirmed: 75,
	ReasonMailboxFull:         55, ReasonRoleAccount: 80, ReasonPossibleTypo: 50, ReasonLowQuality: 45,
	ReasonInvalidSyntax: 0, ReasonDomainNotFound: 1, ReasonNullMX: 2, ReasonProviderSyntax: 2, ReasonNoMailServer: 3,
	ReasonMailboxNotFound: 3, ReasonUnroutableMX: 4, ReasonMailboxDisabled: 8,
	ReasonGreylisted: 50, ReasonSMTPNotChecked: 50, ReasonCancelled: 50, ReasonRateLimited: 45, ReasonTimeout: 40,
	ReasonBlocked: 40, ReasonTemporaryError: 35, ReasonSMTPUTF8Unsupported: 35, ReasonConnectionFailed: 30,
	ReasonDNSError: 30, ReasonProtocolError: 30, ReasonInternalError: 30, ReasonUnclearRefusal: 35,
	ReasonRelayDenied: 30,
}

// Figures of two reasons in cases that count for more than a part.
const (
	figureNotFoundOnCatchAll = 5  // mailbox_not_found where made-up recipients are accepted
	figureUnknownUserNamed   = 20 // temporary_error whose text names an unknown user
)

// Figure is the score of a reason before any evidence is weighed: about the middle of its band.
func (r Reason) Figure() uint8 { return figures[r] }

// kind groups the reasons for which the same evidence counts the same.
type kind uint8

const (
	kindFact        kind = iota // facts of syntax and DNS: one score
	kindValid                   // VALID
	kindConfirmed               // accepted by a host that refuses others, but still a risk
	kindCatchAll                // accepted by a host that accepts made-up recipients
	kindUnconfirmed             // accepted, unknown whether others would be
	kindOther                   // the other risks
	kindMissing                 // INVALID by a mail server's reply
	kindUnknown                 // UNKNOWN
	kinds
)

func (r Reason) kind() kind {
	switch r {
	case ReasonNone:
		return kindValid
	case ReasonRoleAccount, ReasonPossibleTypo, ReasonLowQuality:
		return kindConfirmed
	case ReasonCatchAll:
		return kindCatchAll
	case ReasonAcceptedUnconfirmed:
		return kindUnconfirmed
	case ReasonMailboxNotFound, ReasonMailboxDisabled:
		return kindMissing
	}
	switch r.Bucket() {
	case Risky:
		return kindOther
	case Unknown:
		return kindUnknown
	}
	return kindFact
}

// circumstance is one case of a part, and its points by kind of reason.
type circumstance struct {
	words  string // for the documentation
	points [kinds]int8
}

// The parts of a score after the figure.
const (
	partEvidenceAge = iota
	partCheckAge
	partCloseness
	partElsewhere
	partControl
	partDistance
	partDelay
	partRefused
	partAccepted
	partGrounds
	partSeenBefore
	partLearned
	partRole
	partTypo
	partFree
	partCount
)

// Cases of parts that are not the value of a field of the basis.
const (
	closenessSameHost = 1

	checkAgeKnown = 1 // and those after it: the cases of an age

	elsewhereAccepted = 1
	elsewhereRefused  = 2

	learnedRefusesAndAccepted = 3
)

// forAccepted gives points to the kinds of reasons of a mailbox that was accepted by a host that refuses others.
func forAccepted(points int8) [kinds]int8 {
	return [kinds]int8{kindValid: points, kindConfirmed: points}
}

// forMissing gives points to INVALID by a mail server's reply.
func forMissing(points int8) [kinds]int8 { return [kinds]int8{kindMissing: points} }

// parts is the table of points. The first circumstance of a part is that of a basis that knows nothing.
var parts = [partCount]struct {
	name  string
	cases []circumstance
}{
	partEvidenceAge: {"evidence_age", []circumstance{
		{"the answer is at most an hour old", [kinds]int8{}},
		{"at most a day", [kinds]int8{kindValid: -1, kindConfirmed: -1, kindCatchAll: -1, kindUnconfirmed: -1,
			kindOther: -1, kindMissing: 1, kindUnknown: -1}},
		{"at most seven days", [kinds]int8{kindValid: -1, kindConfirmed: -1, kindCatchAll: -2, kindUnconfirmed: -2,
			kindOther: -2, kindMissing: 1, kindUnknown: -2}},
		{"more", [kinds]int8{kindValid: -1, kindConfirmed: -1, kindCatchAll: -3, kindUnconfirmed: -3, kindOther: -3,
			kindMissing: 1, kindUnknown: -3}},
	}},
	partCheckAge: {"check_age", []circumstance{
		{"the age of the catch-all check is not known", forAccepted(-1)},
		checkAgeKnown: {"at most an hour", [kinds]int8{}},
		{"at most a day", [kinds]int8{kindValid: -1, kindConfirmed: -1, kindCatchAll: 1}},
		{"more", [kinds]int8{kindValid: -1, kindConfirmed: -1, kindCatchAll: 2}},
	}},
	partCloseness: {"check_closeness", []circumstance{
		{"the catch-all check was made over the connection that answered, or how close it was is not known",
			[kinds]int8{}},
		closenessSameHost: {"made at the same host over another connection", [kinds]int8{kindCatchAll: 1}},
	}},
	partElsewhere: {"check_elsewhere", []circumstance{
		{"no catch-all check at another host of the domain is known", [kinds]int8{}},
		elsewhereAccepted: {"another host accepts made-up recipients", [kinds]int8{kindUnconfirmed: -2}},
		elsewhereRefused:  {"another host refuses them", [kinds]int8{kindUnconfirmed: 3}},
	}},
	partControl: {"control", []circumstance{
		control.None: {"no control came after the answer",
			[kinds]int8{kindValid: -1, kindConfirmed: -1, kindMissing: 1}},
		control.Fact:          {"the host was seen before to refuse a made-up recipient", forAccepted(-1)},
		control.TargetRefused: {"the host refused another recipient after it", forAccepted(-1)},
		control.DecoyRefused:  {"the host refused a made-up recipient after it", [kinds]int8{}},
		control.AcceptedElsewhere: {"the host accepted a recipient after it, over another connection",
			[kinds]int8{}},
		control.AcceptedSameConnection: {"and over the same connection", forMissing(-1)},
	}},
	partDistance: {"control_distance", []circumstance{
		basis.DistanceUnknown: {"no answer of the opposite kind is known at the host", forAccepted(-3)},
		basis.Distance2:       {"one is at most 2 answers away", forAccepted(1)},
		basis.Distance8:       {"at most 8", [kinds]int8{}},
		basis.Distance32:      {"at most 32", forAccepted(-1)},
		basis.DistanceFar:     {"more", forAccepted(-2)},
	}},
	partDelay: {"control_delay", []circumstance{
		basis.DelayUnknown: {"the time to it is not known", forAccepted(-1)},
		basis.Delay10s:     {"it is at most ten seconds away", [kinds]int8{}},
		basis.Delay2min:    {"at most two minutes", [kinds]int8{}},
		basis.DelayLong:    {"more", forAccepted(-1)},
	}},
	partRefused: {"host_refused", []circumstance{
		{"no other recipient was refused by the host", forAccepted(-1)},
		{"1", forAccepted(-1)},
		{"2 to 3", [kinds]int8{}},
		{"4 to 15", [kinds]int8{}},
		{"16 to 63", [kinds]int8{}},
		{"64 and more", [kinds]int8{}},
	}},
	partAccepted: {"host_accepted", []circumstance{
		{"no recipient was accepted by the host", forMissing(1)},
		{"1", [kinds]int8{}},
		{"2 to 3", [kinds]int8{}},
		{"4 to 15", [kinds]int8{}},
		{"16 to 63", [kinds]int8{}},
		{"64 and more", [kinds]int8{}},
	}},
	partGrounds: {"grounds", []circumstance{
		basis.GroundsNone:     {"on what a refusal was read is not known", [kinds]int8{}},
		basis.GroundsOne:      {"on words without an enhanced code, or on such a code alone", forMissing(1)},
		basis.GroundsBoth:     {"on words and a code that agree", [kinds]int8{}},
		basis.GroundsProvider: {"on a rule of that provider", forMissing(-1)},
	}},
	partSeenBefore: {"seen_before", []circumstance{
		{"the answer was seen for the first time", [kinds]int8{}},
		{"once before, or the host deferred it first",
			[kinds]int8{kindValid: 1, kindConfirmed: 1, kindCatchAll: 1, kindUnconfirmed: 1, kindOther: 1,
				kindMissing: -1, kindUnknown: -1}},
		{"twice", [kinds]int8{kindValid: 1, kindConfirmed: 1, kindCatchAll: 2, kindUnconfirmed: 2, kindOther: 2,
			kindMissing: -1, kindUnknown: -2}},
		{"more often", [kinds]int8{kindValid: 1, kindConfirmed: 1, kindCatchAll: 2, kindUnconfirmed: 2, kindOther: 2,
			kindMissing: -1, kindUnknown: -3}},
	}},
	partLearned: {"learned", []circumstance{
		basis.LearnedNothing: {"nothing else was learned of the host", [kinds]int8{}},
		basis.LearnedRefuses: {"it refuses made-up recipients of the domain",
			[kinds]int8{kindOther: 2, kindUnknown: 2}},
		basis.LearnedNeighbour: {"it accepted another recipient of the domain over this connection",
			[kinds]int8{kindOther: 3, kindUnknown: 3}},
		learnedRefusesAndAccepted: {"it refuses made-up recipients, and accepted this one", [kinds]int8{kindOther: 4}},
	}},
	partRole: {"role_account", []circumstance{
		{"no role, or the reason says so already", [kinds]int8{}},
		{"a role account", [kinds]int8{kindCatchAll: -1, kindUnconfirmed: -1, kindOther: -1, kindUnknown: -1}},
	}},
	partTypo: {"possible_typo", []circumstance{
		{"no likely typo, or the reason says so already", [kinds]int8{}},
		{"a likely typo in the domain",
			[kinds]int8{kindConfirmed: -2, kindCatchAll: -2, kindUnconfirmed: -2, kindOther: -2, kindUnknown: -2}},
	}},
	partFree: {"free_mail", []circumstance{
		{"not in the list of free mail providers", [kinds]int8{}},
		{"in that list", [kinds]int8{kindConfirmed: 1, kindCatchAll: 1, kindUnconfirmed: 1, kindOther: 1,
			kindUnknown: 1}},
	}},
}

// Score is the score of a verdict at now. It depends only on the verdict's reason, flags, basis, catch-all answer
// and time, so it is the same wherever the verdict is shown.
func Score(v *Verdict, now time.Time) uint8 {
	total := int(v.figure())
	if k := v.Reason.kind(); k != kindFact {
		for p, at := range v.circumstances(now) {
			total += int(parts[p].cases[at].points[k])
		}
	}
	return uint8(total)
}

// ScoreParts explains Score: the figure of the reason, then each part that gave points. They add up to the score.
func ScoreParts(v *Verdict, now time.Time) []Part {
	list := []Part{{"reason", int(v.figure())}}
	if k := v.Reason.kind(); k != kindFact {
		for p, at := range v.circumstances(now) {
			if points := parts[p].cases[at].points[k]; points != 0 {
				list = append(list, Part{parts[p].name, int(points)})
			}
		}
	}
	return list
}

// Band is the range of the scores of a reason, for any evidence.
func (r Reason) Band() Band {
	low, high := int(figures[r]), int(figures[r])
	switch r {
	case ReasonMailboxNotFound:
		high = figureNotFoundOnCatchAll
	case ReasonTemporaryError:
		low = figureUnknownUserNamed
	}
	for p := range parts {
		least, most := int8(0), int8(0)
		for _, c := range parts[p].cases {
			points := c.points[r.kind()]
			least, most = min(least, points), max(most, points)
		}
		low, high = low+int(least), high+int(most)
	}
	return Band{uint8(low), uint8(high)}
}

func (v *Verdict) figure() uint8 {
	switch {
	case v.Reason == ReasonMailboxNotFound && v.Details.CatchAll == Yes:
		return figureNotFoundOnCatchAll
	case v.Reason == ReasonTemporaryError && v.Basis.NamesUnknown:
		return figureUnknownUserNamed
	}
	return figures[v.Reason]
}

// circumstances are the case of each part that applies to a verdict at now.
func (v *Verdict) circumstances(now time.Time) (at [partCount]uint8) {
	b := &v.Basis
	at[partEvidenceAge] = ageCase(now.UnixMilli() - v.VerifiedAt.UnixMilli())
	switch b.Check {
	case basis.CheckSameHost:
		at[partCloseness] = closenessSameHost
	case basis.CheckElsewhereAccepted:
		at[partElsewhere] = elsewhereAccepted
	case basis.CheckElsewhereRefused:
		at[partElsewhere] = elsewhereRefused
	}
	if age, known := b.CheckedFor(v.VerifiedAt, now); known {
		at[partCheckAge] = checkAgeKnown + min(ageCase(age), 2)
	}
	at[partControl], at[partDistance], at[partDelay] = uint8(b.Control), uint8(b.Distance), uint8(b.Delay)
	at[partRefused], at[partAccepted], at[partGrounds] = uint8(b.Refused), uint8(b.Accepted), uint8(b.Grounds)
	at[partSeenBefore], at[partLearned] = b.Before, uint8(b.Learned)
	if v.SMTPValid {
		at[partLearned] = learnedRefusesAndAccepted
	}
	at[partRole] = flagCase(v, FlagRole, ReasonRoleAccount)
	at[partTypo] = flagCase(v, FlagTypo, ReasonPossibleTypo)
	at[partFree] = flagCase(v, FlagFree, ReasonNone)
	return at
}

func flagCase(v *Verdict, f Flags, said Reason) uint8 {
	if v.Flags.Has(f) && v.Reason != said {
		return 1
	}
	return 0
}

// ageCase is the case of an age in milliseconds: at most an hour, a day, a week, or more.
func ageCase(age int64) uint8 {
	const hour = int64(time.Hour / time.Millisecond)
	switch {
	case age <= hour:
		return 0
	case age <= 24*hour:
		return 1
	case age <= 7*24*hour:
		return 2
	}
	return 3
}
