package prober

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/control"
	"probity/prober/wire"
)

// quotes is a host that knows some mailboxes, and quotes the recipient in its replies.
func quotes(locals ...string) *fakeServer {
	return &fakeServer{rcpt: func(local string) string {
		if slices.Contains(locals, local) {
			return "250 2.1.5 " + local + " ok"
		}
		return "550 5.1.1 <" + local + "@a.example>: there is no " + local + " at ours"
	}}
}

// verifyWithDetails verifies rows of a list that asks for details.
func (b *testNode) verifyWithDetails(rows ...wire.Row) map[uint32]engine.Verdict {
	got := map[uint32]engine.Verdict{}
	err := b.prober.Verify(context.Background(), &wire.Batch{Job: "d", Rows: rows, MaxAge: time.Hour, Details: true},
		time.Minute, func(r wire.Results) {
			require.True(b.t, r.Details)
			for _, x := range r.Rows {
				got[x.Row] = x.Verdict
			}
		})
	require.NoError(b.t, err)
	return got
}

// TestDetailsNameBothHalvesOfTheProof: of a VALID and of an INVALID the reply to another recipient is told, with its
// text, time, host and source, without any address; and a kept answer tells the same.
func TestDetailsNameBothHalvesOfTheProof(t *testing.T) {
	const refusal, acceptance = "5.1.1 <address>: there is no <address> at ours", "2.1.5 <address> ok <address>"
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": quotes("annie", "robert")},
		func(b *testNode) {
			began := time.Now()
			check := func(v engine.Verdict, kind control.Kind, code int, text string, subject engine.Subject) {
				w := v.Details.Witness
				require.NotNil(t, w, verdictText(v))
				require.Equal(t, kind, v.Basis.Control)
				require.Equal(t, code, w.Reply.Code)
				require.Equal(t, text, w.Message)
				require.Empty(t, w.Reply.Lines)
				require.Equal(t, subject, w.Subject)
				require.Equal(t, "mx.a.example", w.Host)
				require.Equal(t, "mail.us.example", w.Source)
				require.Equal(t, "mail.us.example", v.Details.Source)
				require.WithinDuration(t, began, w.At, time.Second)
			}
			rows := b.rows(mxA, "annie@a.example", "nobody1@a.example", "robert@a.example", "nobody2@a.example")
			list := b.verifyWithDetails(rows...)
			decided := map[engine.Status]int{}
			for _, row := range rows {
				v := list[row.Number]
				decided[v.Status]++
				if v.Status == engine.Valid {
					check(v, v.Basis.Control, 550, refusal, v.Details.Witness.Subject)
					require.Equal(t, acceptance, v.Details.Message)
					continue
				}
				check(v, control.AcceptedSameConnection, 250, acceptance, engine.SubjectTarget)
				require.Equal(t, refusal, v.Details.Message)
			}
			require.Equal(t, map[engine.Status]int{engine.Valid: 2, engine.Invalid: 2}, decided)
			for _, row := range rows {
				fresh, kept := list[row.Number], b.single(time.Minute, mxA, row.Address.Folded())
				require.True(t, kept.FromCache)
				want := *fresh.Details.Witness
				want.At = want.At.Truncate(time.Millisecond).UTC()
				require.EqualExportedValues(t, want.Reply, kept.Details.Witness.Reply)
				check(kept, fresh.Basis.Control, want.Reply.Code, want.Message, want.Subject)
				require.Equal(t, want.Finding.Rule, kept.Details.Witness.Finding.Rule)
				require.Equal(t, want.At, kept.Details.Witness.At)
				fresh.Details.Witness, kept.Details.Witness = nil, nil
				require.Equal(t, fresh.Details, kept.Details)
			}
		})
}

// TestEarlierRefusalIsNamed: an acceptance rests on what the domain's decoy got an hour ago, as it was said then.
func TestEarlierRefusalIsNamed(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": quotes("annie", "robert")},
		func(b *testNode) {
			asked := time.Now()
			require.Equal(t, "VALID", verdictText(b.verifyOne(mxA, "annie@a.example")))
			time.Sleep(2 * time.Hour)
			v := b.single(time.Minute, mxA, "robert@a.example")
			require.Equal(t, "VALID", verdictText(v))
			w := v.Details.Witness
			require.Equal(t, control.Fact, v.Basis.Control)
			require.Equal(t, "5.1.1 <address>: there is no <address> at ours", w.Message)
			require.Equal(t, engine.SubjectDecoy, w.Subject)
			require.Equal(t, "mail.us.example", w.Source)
			require.WithinDuration(t, asked, w.At, time.Second)
		})
}

// TestListsWithoutDetailsKeepNoTexts: a list that did not ask for details leaves codes and times in the cache, no
// texts.
func TestListsWithoutDetailsKeepNoTexts(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": quotes("annie")}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.verifyOne(mxA, "annie@a.example")))
		d := b.single(time.Minute, mxA, "annie@a.example").Details
		require.Equal(t, 250, d.Code)
		require.Equal(t, 550, d.Witness.Reply.Code)
		require.Empty(t, d.Message+d.Source+d.Witness.Message+d.Witness.Source+d.Witness.Finding.Rule)
	})
}

// TestSingleThatJoinsAListHasDetails: the probe of a plain list tells a single call that joins it what the host said.
func TestSingleThatJoinsAListHasDetails(t *testing.T) {
	h := quotes("annie")
	h.replyDelay = time.Second
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		listed := make(chan engine.Verdict)
		go func() { listed <- b.verifyOne(mxA, "annie@a.example") }()
		time.Sleep(time.Second / 2)
		v := b.single(time.Minute, mxA, "annie@a.example")
		require.Equal(t, "VALID", verdictText(<-listed))
		require.Equal(t, "2.1.5 <address> ok <address>", v.Details.Message)
		require.NotEmpty(t, v.Details.Witness.Message)
		require.Equal(t, 3, h.count("RCPT"), "the target, its decoy, and the control behind that: %v", h.snapshot().log)
	})
}
