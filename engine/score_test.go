package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine/basis"
	"probity/engine/control"
)

const lastReason = Reason(Reasons - 1)

// drawBasis draws any basis that a verdict can have.
func drawBasis(t *rapid.T) basis.Basis {
	upTo := func(most int, name string) uint8 { return uint8(rapid.IntRange(0, most).Draw(t, name)) }
	return basis.Basis{
		Check:        basis.Check(upTo(int(basis.CheckSameConnection), "check")),
		Control:      control.Kind(upTo(int(control.AcceptedSameConnection), "control")),
		Distance:     basis.Distance(upTo(int(basis.DistanceFar), "distance")),
		Delay:        basis.Delay(upTo(int(basis.DelayLong), "delay")),
		Refused:      basis.Tally(upTo(int(basis.TallyMost), "refused")),
		Accepted:     basis.Tally(upTo(int(basis.TallyMost), "accepted")),
		Grounds:      basis.Grounds(upTo(int(basis.GroundsProvider), "grounds")),
		Learned:      basis.Learned(upTo(int(basis.LearnedNeighbour), "learned")),
		Before:       upTo(basis.MaxBefore, "before"),
		NamesUnknown: rapid.Bool().Draw(t, "names unknown"),
		CheckAge:     rapid.Uint16Range(0, basis.MaxCheckAge).Draw(t, "check age"),
	}
}

func drawVerdict(t *rapid.T) Verdict {
	r := Reason(rapid.IntRange(0, int(lastReason)).Draw(t, "reason"))
	v := Verdict{Reason: r, Status: r.Bucket(), Flags: Flags(rapid.IntRange(0, 15).Draw(t, "flags")),
		Basis:     drawBasis(t),
		SMTPValid: rapid.Bool().Draw(t, "smtp valid"), VerifiedAt: noon}
	v.Details.CatchAll = Tri(rapid.IntRange(0, 2).Draw(t, "catch-all"))
	return v
}

func drawAge(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, name))
}

func TestScoreBandsAreFixed(t *testing.T) {
	for r := ReasonNone; r <= lastReason; r++ {
		b, figure := r.Band(), r.Figure()
		t.Logf("%s %q: %d to %d around %d", r.Bucket(), r, b.Low, b.High, figure)
		require.True(t, b.Low <= figure && figure <= b.High, "%s: %v", r, b)
		switch {
		case r == ReasonNone:
			require.Equal(t, Band{90, 100}, b)
		case r == ReasonMailboxNotFound || r == ReasonMailboxDisabled:
			require.LessOrEqual(t, b.High, uint8(12), r)
		case r.Bucket() == Invalid:
			require.Equal(t, Band{figure, figure}, b, r)
		default:
			low := figure
			if r == ReasonTemporaryError {
				low = figureUnknownUserNamed
			}
			require.True(t, low-b.Low >= 3 && low-b.Low <= 10, "%s: %v", r, b)
			require.True(t, b.High-figure >= 3 && b.High-figure <= 10, "%s: %v", r, b)
		}
	}
}

func TestPartsAddUpAndScoresStayInTheirBand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVerdict(t)
		now := noon.Add(drawAge(t, "age") - time.Hour)
		score, sum := Score(&v, now), 0
		for _, p := range ScoreParts(&v, now) {
			sum += p.Points
		}
		if b := v.Reason.Band(); sum != int(score) || score < b.Low || score > b.High {
			t.Fatalf("%s: score %d, parts %v, band %v", v.Reason, score, ScoreParts(&v, now), b)
		}
	})
}

// acceptance is evidence about a mailbox with a catch-all check, as a score may have to weigh it.
type acceptance struct {
	target, decoy time.Time
	sameConn      bool
	control       control.Control // its kind is the place among the three for the reply
	before        uint8
	flags         Flags
}

func drawAcceptance(t *rapid.T, now time.Time) acceptance {
	return acceptance{
		target: now.Add(-drawAge(t, "age of the answer")), decoy: now.Add(-drawAge(t, "age of the check")),
		sameConn: rapid.Bool().Draw(t, "same connection"),
		control: control.Control{
			Kind:    control.Kind(rapid.IntRange(0, 2).Draw(t, "control")),
			Replies: rapid.Uint16Range(1, 100).Draw(t, "replies"),
			After:   time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after")),
			Refused: rapid.Uint8().Draw(t, "refused"), Accepted: rapid.Uint8().Draw(t, "accepted"),
		},
		before: uint8(rapid.IntRange(0, 3).Draw(t, "before")),
		flags:  Flags(rapid.SampledFrom([]int{0, int(FlagFree)}).Draw(t, "flags")),
	}
}

// judge is the verdict on an address that was answered as in target, with a made-up one answered as in decoy.
func (a acceptance) judge(target, decoy Sighting, now time.Time) Verdict {
	target.At, decoy.At, decoy.Conn = a.target, a.decoy, 2
	if a.sameConn {
		decoy.Conn = target.Conn
	}
	ev := Evidence{Route: unknownRoute("a"), Flags: a.flags, Control: a.control, Seen: []Sighting{target, decoy}}
	kinds := [...]control.Kind{control.Fact, control.TargetRefused, control.DecoyRefused}
	if target.Finding.Meaning != Accepted {
		kinds = [...]control.Kind{control.None, control.AcceptedElsewhere, control.AcceptedSameConnection}
	}
	ev.Control.Kind = kinds[a.control.Kind]
	if a.before > 0 {
		ev.Earlier = Earlier{decide(&ev, Policy{}).reason, a.before}
	}
	return Judge(&ev, Policy{}, now)
}

// improve changes one thing so that the evidence is more certain.
func (a acceptance) improve(t *rapid.T, now time.Time) acceptance {
	fresher := func(at time.Time) time.Time {
		return at.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(at))).Draw(t, "fresher by")))
	}
	switch rapid.SampledFrom([]string{"answer", "check", "both", "closer", "control", "before"}).Draw(t,
		"what is better") {
	case "answer":
		a.target = fresher(a.target)
	case "check":
		a.decoy = fresher(a.decoy)
	case "both":
		a.target, a.decoy = fresher(a.target), fresher(a.decoy)
	case "closer":
		a.sameConn = true
	case "control":
		a.control = control.Control{
			Kind:     control.Kind(rapid.IntRange(int(a.control.Kind), 2).Draw(t, "surer control")),
			Replies:  rapid.Uint16Range(1, a.control.Replies).Draw(t, "fewer replies"),
			After:    time.Duration(rapid.Int64Range(0, int64(a.control.After)).Draw(t, "sooner")),
			Refused:  rapid.Uint8Range(a.control.Refused, 255).Draw(t, "more refused"),
			Accepted: rapid.Uint8Range(a.control.Accepted, 255).Draw(t, "more accepted"),
		}
	case "before":
		a.before = uint8(rapid.IntRange(int(a.before), 3).Draw(t, "more often"))
	}
	return a
}

func TestBetterEvidenceNeverWorsensTheScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "now")))
		a := drawAcceptance(t, now)
		b := a.improve(t, now)
		if was, is := a.judge(accepted, decoyNo, now), b.judge(accepted, decoyNo, now); was.Status != Valid ||
			is.Score < was.Score {
			t.Fatalf("VALID %d became %d:\n%+v\n%+v", was.Score, is.Score, ScoreParts(&was, now), ScoreParts(&is, now))
		}
		decoy := rapid.SampledFrom([]Sighting{decoyNo, decoyYes}).Draw(t, "decoy")
		refusal := rapid.SampledFrom([]Sighting{missing,
			replySighting(SubjectTarget, "a", 550, MailboxDisabled, BlameRecipient)}).Draw(t, "refusal")
		if was, is := a.judge(refusal, decoy, now), b.judge(refusal, decoy, now); was.Status != Invalid ||
			is.Score > was.Score {
			t.Fatalf("INVALID %d became %d:\n%+v\n%+v", was.Score, is.Score, ScoreParts(&was, now),
				ScoreParts(&is, now))
		}
	})
}

func TestScoresMoveOneWayWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVerdict(t)
		now := noon.Add(drawAge(t, "age"))
		was, is := Score(&v, now), Score(&v, now.Add(drawAge(t, "later by")))
		if v.Status == Valid && is > was || v.Status == Invalid && is < was {
			t.Fatalf("%s: %d became %d", v.Reason, was, is)
		}
	})
}

func TestStoredVerdictKeepsItsScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVerdict(t)
		v.VerifiedAt = noon.Add(drawAge(t, "at"))
		got, err := ReadCore(AppendCore(nil, &v))
		if err != nil || got.Basis != v.Basis {
			t.Fatalf("%+v became %+v: %v", v.Basis, got.Basis, err)
		}
		if now := v.VerifiedAt.Add(drawAge(t, "age")); Score(&got, now) != Score(&v, now) {
			t.Fatalf("%d became %d", Score(&v, now), Score(&got, now))
		}
	})
}

func TestABasisThatKnowsNothingCountsLeast(t *testing.T) {
	v := Verdict{Status: Valid, Reason: ReasonNone, VerifiedAt: noon}
	require.Equal(t, Band{90, 100}, v.Reason.Band())
	require.Less(t, int(Score(&v, noon.Add(48*time.Hour))), 92, "%+v", ScoreParts(&v, noon))
}

func TestFactsOfFailedAttemptsCount(t *testing.T) {
	neighbour := greylisted
	neighbour.NeighbourAccepted = true
	score := func(seen ...Sighting) uint8 {
		ev := Evidence{Route: unknownRoute("a"), Seen: seen}
		v := Judge(&ev, Policy{}, noon)
		require.Equal(t, "greylisted", v.Reason.String())
		return v.Score
	}
	require.Equal(t, []uint8{50, 52, 53}, []uint8{score(greylisted), score(decoyNo, greylisted), score(neighbour)})
	again := Evidence{Route: unknownRoute("a"), Seen: []Sighting{greylisted}, Attempts: 2}
	require.Equal(t, uint8(48), Judge(&again, Policy{}, noon).Score, "put off twice before")
}

func TestRepeatedAnswerCountsOnlyAfterAnHour(t *testing.T) {
	ev := Evidence{Route: unknownRoute("a"), Seen: []Sighting{accepted, decoyNo}}
	kept := Judge(&ev, Policy{}, noon)
	for _, c := range []struct {
		wait time.Duration
		want uint8
	}{{time.Minute, 0}, {2 * time.Hour, 1}} {
		now := noon.Add(c.wait)
		again := Evidence{Route: ev.Route, Seen: ev.Seen, Earlier: EarlierOf(&kept, now)}
		require.Equal(t, c.want, Judge(&again, Policy{}, noon).Basis.Before)
	}
	other := Evidence{Route: ev.Route, Seen: []Sighting{missing}, Earlier: EarlierOf(&kept, noon.Add(time.Hour))}
	require.Zero(t, Judge(&other, Policy{}, noon).Basis.Before, "another answer")
}

func TestJudgeAndScoreAllocateNothing(t *testing.T) {
	ev := Evidence{Route: unknownRoute("a"), Seen: []Sighting{accepted, decoyNo}}
	v := Judge(&ev, Policy{}, noon)
	require.Zero(t, testing.AllocsPerRun(100, func() { v = Judge(&ev, Policy{}, noon) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { v.Score = Score(&v, noon) }))
}

func BenchmarkJudge(b *testing.B) {
	ev := Evidence{Route: unknownRoute("a"), Seen: []Sighting{accepted, decoyNo}}
	b.ReportAllocs()
	for b.Loop() {
		Judge(&ev, Policy{}, noon)
	}
}

func BenchmarkScore(b *testing.B) {
	ev := Evidence{Route: unknownRoute("a"), Seen: []Sighting{accepted, decoyNo}}
	v := Judge(&ev, Policy{}, noon)
	b.ReportAllocs()
	for b.Loop() {
		Score(&v, noon)
	}
}

// TestScorePage compares the tables of docs/score.md with the code.
func TestScorePage(t *testing.T) {
	page, err := os.ReadFile("../docs/score.md")
	require.NoError(t, err)
	for _, table := range []string{bandTable(), pointTable()} {
		if !strings.Contains(string(page), table) {
			t.Errorf("docs/score.md must hold this table:\n%s", table)
		}
	}
}

func bandTable() string {
	b := strings.Builder{}
	b.WriteString("| status | reason | figure | least | greatest |\n|---|---|---|---|---|\n")
	for r := ReasonNone; r <= lastReason; r++ {
		name := "null"
		if r != ReasonNone {
			name = "`" + r.String() + "`"
		}
		band := r.Band()
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", r.Bucket(), name, r.Figure(), band.Low, band.High)
	}
	return b.String()
}

func pointTable() string {
	b := strings.Builder{}
	b.WriteString("| part | when | VALID | confirmed | catch-all | unconfirmed | other RISKY | INVALID | UNKNOWN |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range parts {
		for _, c := range p.cases {
			if c.points == [kinds]int8{} {
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s |", p.name, c.words)
			for k := kindValid; k < kinds; k++ {
				fmt.Fprintf(&b, " %s |", strings.TrimPrefix(fmt.Sprintf("%+d", c.points[k]), "+0"))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestEarlierChecksDoNotChangeTheVerdict adds catch-all checks of other connections, as at the end of a probe: they
// change only the score.
func TestEarlierChecksDoNotChangeTheVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := []string{"a", "b", "c"}
		ev := Evidence{Route: unknownRoute(hosts...), Flags: Flags(rapid.IntRange(0, 15).Draw(t, "flags"))}
		for step := Next(&ev, Policy{}); step.Kind != StepDone && step.Kind != StepWait &&
			len(ev.Seen) < 20; step = Next(&ev, Policy{}) {
			ev.Append(drawSighting(t, step))
		}
		was := Judge(&ev, Policy{}, noon)
		except, lacks := ev.LacksChecks()
		for _, h := range hosts {
			kept := rapid.SampledFrom([]Sighting{decoyNo, decoyYes}).Draw(t, "kept")
			kept.Host = h
			if lacks && h != except && rapid.Bool().Draw(t, "known") {
				ev.PrependCheck(kept)
			}
		}
		if is := Judge(&ev, Policy{}, noon); is.Status != was.Status || is.Reason != was.Reason ||
			is.SMTPValid != was.SMTPValid {
			t.Fatalf("%s %s became %s %s: %+v", was.Status, was.Reason, is.Status, is.Reason, ev.Seen)
		}
	})
}
