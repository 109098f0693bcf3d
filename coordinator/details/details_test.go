package details

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/basis"
	"probity/engine/control"
)

// accepted is a VALID that the refusal of another recipient controls.
func accepted() engine.Verdict {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &engine.Witness{Message: "5.1.1 <address>: no such user", Source: "mail1.us.example"}
	w.Subject, w.Host, w.At = engine.SubjectTarget, "mx.example", at.Add(2*time.Second)
	w.Reply = engine.Reply{Code: 550, Enhanced: engine.Enhanced{Class: 5, Subject: 1, Detail: 1},
		Stage: engine.StageRcpt}
	w.Finding = engine.Finding{Meaning: engine.NoMailbox, Blame: engine.BlameRecipient, Rule: "generic/unknown-user"}
	return engine.Verdict{Status: engine.Valid, SMTPValid: true, Score: 98, Rule: "decoy/refused", VerifiedAt: at,
		Basis: basis.Basis{Check: basis.CheckSameHost, CheckAge: 61, Control: control.TargetRefused,
			Distance: basis.Distance2, Delay: basis.Delay10s},
		Details: engine.Details{CatchAll: engine.No, Host: "mx.example", Code: 250,
			Enhanced: engine.Enhanced{Class: 2, Subject: 1, Detail: 5},
			Message:  "2.1.5 Ok", Stage: engine.StageRcpt, Attempts: 1, Source: "mail1.us.example", Witness: w}}
}

func TestBothHalvesAreShown(t *testing.T) {
	v, table := accepted(), engine.DefaultTable()
	d := Details{Verdict: &v, Node: "node-1", Took: -1, Table: table}
	var got map[string]any
	require.NoError(t, json.Unmarshal(d.AppendJSON(nil, v.VerifiedAt), &got))
	rule := table.Rule("generic/unknown-user")
	require.NotNil(t, rule)
	require.Equal(t, map[string]any{"kind": "recipient_refused_after", "mx_host": "mx.example", "smtp_code": 550.0,
		"enhanced_code": "5.1.1",
		"smtp_message":  "5.1.1 <address>: no such user", "meaning": "no_mailbox", "rule": rule.ID,
		"rule_source": rule.Source, "rule_date": rule.Date,
		"at": "2026-03-01T12:00:02Z", "egress_source": "mail1.us.example"}, got["control"])
	require.Equal(t, "2026-03-01T11:01:00Z", got["catch_all_checked_at"])
	require.Equal(t, "mail1.us.example", got["egress_source"])
	require.Equal(t, "decoy/refused", got["rule"])
	require.Nil(t, got["rule_source"], "it is the program's own")
	require.Nil(t, got["duration_ms"], "not known")
}

func TestPackedDetailsAreReadAsTheyWere(t *testing.T) {
	want := accepted()
	got := engine.Verdict{Status: want.Status, SMTPValid: true, Score: want.Score, Rule: want.Rule,
		VerifiedAt: want.VerifiedAt}
	got.Details.CatchAll = want.Details.CatchAll // of the core
	node, scored, err := Unpack(Pack(nil, &want, "node-1", want.VerifiedAt.Add(time.Hour)), &got)
	require.NoError(t, err)
	require.Equal(t, want.VerifiedAt.Add(time.Hour), scored)
	require.Equal(t, "node-1", node)
	require.Equal(t, want, got)
}

func FuzzUnpack(f *testing.F) {
	v := accepted()
	f.Add(Pack(nil, &v, "node-1", v.VerifiedAt))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := engine.Verdict{VerifiedAt: v.VerifiedAt}
		node, scored, err := Unpack(b, &got)
		if err != nil {
			return
		}
		again := engine.Verdict{VerifiedAt: v.VerifiedAt}
		nodeAgain, scoredAgain, err := Unpack(Pack(nil, &got, node, scored), &again)
		require.NoError(t, err)
		require.Equal(t, node, nodeAgain)
		require.Equal(t, scored, scoredAgain)
		require.Equal(t, got, again)
		d := Details{Verdict: &got, Node: node, Took: -1}
		require.True(t, json.Valid(d.AppendJSON(nil, v.VerifiedAt)))
	})
}
