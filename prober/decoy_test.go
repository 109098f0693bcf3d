package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// verifiesFirst is an rcpt script of a Postfix that verifies recipients at the host behind it before it takes them.
func verifiesFirst(local string) string {
	if strings.HasPrefix(local, "ann") {
		return "250 2.1.5 ok"
	}
	return "450 4.1.1 <" + local + "@a.example>: Recipient address rejected: unverified address: host 10.1.1.9[10.1.1.9] said: 550 5.1.1 User unknown (in reply to RCPT TO command)"
}

// TestDecoyNamedUnknownConfirmsTheDomain: a temporary reply that names an unknown user, given twice, a retry apart,
// shows that the host checks recipients, for as long as a refusal does and for all targets of the domain; the decoy is
// not asked again. It makes no target invalid.
func TestDecoyNamedUnknownConfirmsTheDomain(t *testing.T) {
	h := &fakeServer{rcpt: verifiesFirst, replyDelay: time.Second, noPipelining: true}
	table := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0",
		"recipients_per_transaction = 1").Replace(testTable)
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		valid := func(attempt uint8, from, to int) {
			var addrs []string
			for i := from; i < to; i++ {
				addrs = append(addrs, fmt.Sprintf("ann%d@a.example", i))
			}
			rows := b.rows(mxA, addrs...)
			for i := range rows {
				rows[i].Attempt = attempt
			}
			for _, r := range b.verify(time.Hour, rows...) {
				require.Equal(t, "VALID", verdictText(r.Verdict))
			}
		}
		first := b.rows(mxA, "ann@a.example")[0]
		got := b.verify(time.Hour, first)[first.Number]
		require.Equal(t, wire.Deferred, got.Outcome, "once is not enough")
		require.Equal(t, 2, h.count("RCPT"), "%v", h.snapshot().log)
		time.Sleep(time.Until(got.Due))
		valid(got.Attempt, 0, 60) // several minutes
		require.Equal(t, 2+61, h.count("RCPT"), "one decoy more: %v", h.snapshot().log)
		time.Sleep(time.Hour)
		valid(0, 60, 61)
		require.Equal(t, 2+62, h.count("RCPT"), "the cache knows the domain: %v", h.snapshot().log)
		for _, r := range b.verify(time.Minute, b.rows(mxA, "eve@a.example")...) {
			require.Equal(t, "UNKNOWN temporary_error", verdictText(r.Verdict))
		}
	})
}

// TestDecoyUnderVerificationConfirmsNothing: the same Postfix also says "unverified address" while it cannot ask the
// host behind it, which may accept all recipients. That is deferred, and a decoy that is accepted later shows a
// catch-all domain.
func TestDecoyUnderVerificationConfirmsNothing(t *testing.T) {
	h := &fakeServer{}
	var asked time.Time
	h.rcpt = func(local string) string {
		switch {
		case strings.HasPrefix(local, "ann"):
			return "250 2.1.5 ok"
		case asked.IsZero():
			asked = time.Now()
		}
		if time.Since(asked) < 30*time.Second {
			return "450 4.1.1 <" + local + "@a.example>: Recipient address rejected: unverified address: Address verification in progress"
		}
		return "250 2.1.5 ok"
	}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		row := b.rows(mxA, "ann@a.example")[0]
		got := b.verify(time.Minute, row)[row.Number]
		require.Equal(t, wire.Deferred, got.Outcome)
		require.NotEqual(t, engine.Valid, got.Verdict.Status)
		time.Sleep(time.Minute)
		row.Attempt = got.Attempt
		require.Equal(t, "RISKY catch_all", verdictText(b.verify(time.Minute, row)[row.Number].Verdict))
	})
}
