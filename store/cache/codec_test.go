package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func sampleVerdict() engine.Verdict {
	return engine.Verdict{
		Status: engine.Valid, Reason: engine.ReasonNone, Score: 98, SMTPValid: true, ProviderID: "google",
		Rule:       "decoy/refused",
		VerifiedAt: time.UnixMilli(1_700_000_000_123).UTC(),
		Details: engine.Details{CatchAll: engine.No, Host: "mx.example", Code: 250,
			Enhanced: engine.Enhanced{Class: 2, Subject: 1, Detail: 5},
			Message:  "2.1.5 OK", Stage: engine.StageRcpt},
	}
}

func TestVerdictRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*engine.Verdict){
		"whole":      func(*engine.Verdict) {},
		"no details": func(v *engine.Verdict) { v.Details = engine.Details{CatchAll: engine.Yes} },
		"refused": func(v *engine.Verdict) {
			v.Status = engine.Invalid
			v.Reason = engine.ReasonMailboxNotFound
			v.Score = 3
			v.SMTPValid = false
		},
	} {
		want := sampleVerdict()
		change(&want)
		got, err := ReadVerdict(AppendVerdict(nil, &want))
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

func TestFactRoundTrip(t *testing.T) {
	for name, finding := range map[string]engine.Finding{
		"refused":  {Meaning: engine.NoMailbox, Blame: engine.BlameRecipient, Rule: "generic/5.1.1"},
		"accepted": {Meaning: engine.Accepted},
		"named in a 4xx": {Meaning: engine.Temporary, Blame: engine.BlameSite, NamesUnknown: true,
			Rule: "generic/unverified-address"},
		"words of no rules": {Meaning: engine.MeaningUnknown},
	} {
		for _, controlled := range []bool{true, false} {
			s := engine.Sighting{Subject: engine.SubjectDecoy, Host: "mx.example", At: time.UnixMilli(5).UTC(),
				Controlled: controlled,
				Reply: engine.Reply{Stage: engine.StageRcpt, Code: 550,
					Lines: []string{"5.1.1 <address>: no such user"}}, Finding: finding}
			if finding.NamesUnknown {
				s.Reply.Code = 450
			}
			f, ok := FactOf(&s)
			f.Message, f.Source = s.Reply.Text(), "mx-out-1"
			if finding.Meaning == engine.MeaningUnknown && !controlled {
				require.False(t, ok, name)
				continue
			}
			require.True(t, ok, name)
			got, err := ReadFact(AppendFact(nil, &f))
			require.NoError(t, err, name)
			require.Equal(t, s, got.Sighting("mx.example"), name)
		}
	}
}

// TestOldFactsAreNotRead: a fact that was written before controls were known may vouch by the old rule.
func TestOldFactsAreNotRead(t *testing.T) {
	b := AppendFact(nil, &Fact{At: time.UnixMilli(7), Code: 550, Meaning: engine.MeaningUnknown, Controlled: true})
	b[0] = valueVersion
	_, err := ReadFact(b)
	require.Error(t, err)
}

func TestUnclearDecoysAreNotFacts(t *testing.T) {
	for _, s := range []engine.Sighting{
		{Event: engine.EventTimeout},
		{Reply: engine.Reply{Code: 450}, Finding: engine.Finding{Meaning: engine.NoMailbox}},
		{Reply: engine.Reply{Code: 450}, Finding: engine.Finding{Meaning: engine.Greylisted}},
		{Reply: engine.Reply{Code: 550}, Finding: engine.Finding{Meaning: engine.Blocked}},
		{Reply: engine.Reply{Code: 550}, Finding: engine.Finding{Meaning: engine.MeaningUnknown}},
	} {
		_, ok := FactOf(&s)
		require.False(t, ok, "%+v", s)
	}
}

func FuzzReadVerdict(f *testing.F) {
	v := sampleVerdict()
	f.Add(AppendVerdict(nil, &v))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ReadVerdict(b)
		if err != nil {
			return
		}
		again, err := ReadVerdict(AppendVerdict(nil, &v))
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzReadFact(f *testing.F) {
	f.Add(AppendFact(nil, &Fact{At: time.UnixMilli(7), Code: 550, Meaning: engine.NoMailbox,
		Blame: engine.BlameRecipient, Rule: "generic/5.1.1"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ReadFact(b)
		if err != nil {
			return
		}
		again, err := ReadFact(AppendFact(nil, &v))
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}
