package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// suspectTable has a receiver whose accepted decoys are suspect after twenty refusals of an hour; it takes one
// recipient a transaction, on one connection.
var suspectTable = strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0",
	"recipients_per_transaction = 1",
	"refusals_per_hour = 0", "refusals_per_hour = 40").Replace(testTable)

// someDomainsCatchAll is a script of a host that has every ann, and accepts all recipients of domains that begin with
// all.
func someDomainsCatchAll(local, domain string) string {
	if strings.HasPrefix(domain, "all") {
		return "250 2.1.5 ok"
	}
	return acceptsAnn(local)
}

// afterRefusals has a host refuse unknown mailboxes, so that its accepted decoys are suspect for an hour, and then does
// f.
func afterRefusals(t *testing.T, rcpt func(local, domain string) string, before, f func(*testNode, *fakeServer)) {
	h := &fakeServer{rcptByDomain: rcpt}
	withTestNode(t, suspectTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		if before != nil {
			before(b, h)
		}
		for _, r := range b.verify(time.Minute, b.rows(mxA, unknownAddresses(0, 20)...)...) {
			require.Equal(t, "INVALID mailbox_not_found", verdictText(r.Verdict))
		}
		f(b, h)
	})
}

// unknownAddresses are addresses that do not exist.
func unknownAddresses(from, to int) (addrs []string) {
	for i := from; i < to; i++ {
		addrs = append(addrs, fmt.Sprintf("nobody%d@known.example", i))
	}
	return addrs
}

// verifyLastAttempt verifies an address at the last of its attempts, when nothing is deferred any more.
func (b *testNode) verifyLastAttempt(addr string) wire.Result {
	row := b.rows(mxA, addr)[0]
	row.Attempt = 2
	return b.verify(time.Minute, row)[row.Number]
}

// TestCatchAllIsFoundAfterRefusals: an accepted decoy that is suspect shows that its domain accepts every recipient
// once the host has refused another recipient after it, whether for good or in a temporary reply that names an unknown
// user. The next list knows it.
func TestCatchAllIsFoundAfterRefusals(t *testing.T) {
	for _, refusal := range []string{"550 5.1.1 User unknown",
		"450 4.1.1 unverified address: host mx said: 550 User unknown"} {
		rcpt := func(local, domain string) string {
			if strings.HasPrefix(local, "nobody20") {
				return refusal
			}
			return someDomainsCatchAll(local, domain)
		}
		afterRefusals(t, rcpt, nil, func(b *testNode, h *fakeServer) {
			rows := b.rows(mxA, append([]string{"ann@all1.example", "bob@all2.example"},
				unknownAddresses(200, 206)...)...)
			got := b.verify(time.Minute, rows...)
			for _, r := range rows[:2] {
				require.Equal(t, wire.Settled, got[r.Number].Outcome)
				require.Equal(t, "RISKY catch_all", verdictText(got[r.Number].Verdict), refusal)
			}
			asked := h.count("RCPT")
			got = b.verify(time.Minute, b.rows(mxA, "cid@all1.example")...)
			for _, r := range got {
				require.Equal(t, "RISKY catch_all", verdictText(r.Verdict))
			}
			require.Equal(t, asked+1, h.count("RCPT"), "the decoy of a domain is asked once: %v", h.snapshot().log)
		})
	}
}

// TestSuspectDecoyIsNotCached: a domain whose accepted decoy is suspect, with no refusal after it, is left unconfirmed,
// for lists and singles. That is not kept: when the hour is over, the domain gets the verdict that it gets in a fresh
// run.
func TestSuspectDecoyIsNotCached(t *testing.T) {
	afterRefusals(t, someDomainsCatchAll, nil, func(b *testNode, _ *fakeServer) {
		time.Sleep(30 * time.Minute)
		require.Equal(t, wire.Deferred, b.verify(time.Minute,
			b.rows(mxA, "ann@all1.example")...)[b.lastRow.Load()].Outcome)
		require.Equal(t, "RISKY accepted_unconfirmed", verdictText(b.verifyLastAttempt("bob@all1.example").Verdict))
		require.Equal(t, "RISKY accepted_unconfirmed", verdictText(b.single(time.Minute, mxA, "cid@all2.example")))
		time.Sleep(35 * time.Minute) // less than the test node's greatest age of a cached verdict
		require.Equal(t, "RISKY catch_all", verdictText(b.verifyLastAttempt("bob@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", verdictText(b.single(time.Minute, mxA, "cid@all2.example")))
	})
}

// TestKnownCatchAllStands: what a decoy has shown before the refusals is believed after them, by lists and singles, and
// is not asked again.
func TestKnownCatchAllStands(t *testing.T) {
	before := func(b *testNode, _ *fakeServer) {
		require.Equal(t, "RISKY catch_all", verdictText(b.verifyLastAttempt("ann@all1.example").Verdict))
	}
	afterRefusals(t, someDomainsCatchAll, before, func(b *testNode, h *fakeServer) {
		asked := h.count("RCPT")
		require.Equal(t, "RISKY catch_all", verdictText(b.verifyLastAttempt("ann@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", verdictText(b.verifyLastAttempt("bob@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", verdictText(b.single(time.Minute, mxA, "cid@all1.example")))
		require.Equal(t, asked+2, h.count("RCPT"), "%v", h.snapshot().log)
	})
}

// TestSilentAcceptanceIsNoCatchAll: a host that has fallen silent shows nothing: domains that it was not asked about
// before are neither VALID nor catch-all while it accepts all recipients, and get their verdicts when its hour is over.
func TestSilentAcceptanceIsNoCatchAll(t *testing.T) {
	var refused int
	var silent time.Time
	rcpt := func(local, _ string) string {
		if strings.HasPrefix(local, "ann") || time.Now().Before(silent) {
			return "250 2.1.5 ok"
		}
		refused++
		if refused == 20 {
			silent = time.Now().Add(time.Hour)
		}
		return "550 5.1.1 User unknown"
	}
	afterRefusals(t, rcpt, nil, func(b *testNode, _ *fakeServer) {
		time.Sleep(30 * time.Minute)
		addrs := append([]string{"ann@new1.example", "nobody@new2.example"}, unknownAddresses(20, 40)...)
		for _, r := range b.verify(time.Minute, b.rows(mxA, addrs...)...) {
			if r.Outcome == wire.Settled {
				require.Equal(t, "RISKY accepted_unconfirmed", verdictText(r.Verdict))
			}
		}
		require.Equal(t, "RISKY accepted_unconfirmed", verdictText(b.verifyLastAttempt("ann@new1.example").Verdict))
		time.Sleep(35 * time.Minute)
		require.Equal(t, "VALID", verdictText(b.verifyLastAttempt("ann@new1.example").Verdict))
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.verifyLastAttempt("nobody@new2.example").Verdict))
	})
}
