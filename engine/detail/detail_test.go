package detail

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// refused is a VALID that rests on another recipient's refusal.
func refused() engine.Verdict {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	w := &engine.Witness{Message: "5.1.1 <address>: no such user", Source: "mx-out-1"}
	w.Subject, w.Host, w.At = engine.SubjectDecoy, "mx.example", at.Add(1500*time.Millisecond)
	w.Reply = engine.Reply{Code: 550, Enhanced: engine.Enhanced{Class: 5, Subject: 1, Detail: 1},
		Stage: engine.StageRcpt}
	w.Finding = engine.Finding{Meaning: engine.NoMailbox, Blame: engine.BlameRecipient, Rule: "generic/no-mailbox"}
	return engine.Verdict{Status: engine.Valid, VerifiedAt: at,
		Details: engine.Details{Host: "mx.example", Code: 250, Message: "2.1.5 OK",
			Enhanced: engine.Enhanced{Class: 2, Subject: 1, Detail: 5}, Stage: engine.StageRcpt, Attempts: 2,
			Source: "mx-out-1", Witness: w}}
}

func TestDetailsAreReadAsTheyWere(t *testing.T) {
	for name, change := range map[string]func(*engine.Details){
		"whole":          func(*engine.Details) {},
		"no witness":     func(d *engine.Details) { d.Witness = nil },
		"another host":   func(d *engine.Details) { d.Witness.Host, d.Witness.Source = "mx2.example", "mx-out-2" },
		"earlier":        func(d *engine.Details) { d.Witness.At = d.Witness.At.Add(-100 * time.Hour) },
		"another target": func(d *engine.Details) { d.Witness.Subject = engine.SubjectTarget },
		"no enhanced code": func(d *engine.Details) {
			d.Enhanced, d.Witness.Reply.Enhanced = engine.Enhanced{},
				engine.Enhanced{}
		},
		"no reply": func(d *engine.Details) { *d = engine.Details{Host: "mx.example", Attempts: 1} },
		"nothing":  func(d *engine.Details) { *d = engine.Details{} },
	} {
		want := refused()
		change(&want.Details)
		got := engine.Verdict{Status: want.Status, VerifiedAt: want.VerifiedAt}
		require.NoError(t, Read(Append(nil, &want), &got), name)
		require.Equal(t, want, got, name)
	}
}

// TestTextsAreOnlyForThoseWhoAsk: of a verdict without texts, codes and times are kept, in a few bytes.
func TestTextsAreOnlyForThoseWhoAsk(t *testing.T) {
	v := refused()
	v.Details.Message, v.Details.Source, v.Details.Witness.Message = "", "", ""
	v.Details.Witness.Reply.Lines = []string{"5.1.1 <ann@shop.example>: no such user"}
	packed := Append(nil, &v)
	require.LessOrEqual(t, len(packed), 32)
	got := engine.Verdict{VerifiedAt: v.VerifiedAt}
	require.NoError(t, Read(packed, &got))
	require.Equal(t, 550, got.Details.Witness.Reply.Code)
	require.Equal(t, v.Details.Witness.At, got.Details.Witness.At)
	require.Empty(t, got.Details.Witness.Finding.Rule)
	require.Empty(t, got.Details.Witness.Source)
}

func FuzzRead(f *testing.F) {
	v := refused()
	f.Add(Append(nil, &v))
	f.Add([]byte{5, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got := engine.Verdict{VerifiedAt: v.VerifiedAt}
		if Read(b, &got) != nil {
			return
		}
		again := engine.Verdict{VerifiedAt: v.VerifiedAt}
		require.NoError(t, Read(Append(nil, &got), &again))
		require.Equal(t, got, again)
	})
}
