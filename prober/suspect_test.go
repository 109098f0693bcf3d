package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// oneByHour has a receiver of which acceptances are under suspicion once ten refusals of an hour were heard; it takes one recipient a
// transaction, on one connection.
var oneByHour = strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0", "recipients_per_transaction = 1",
	"refusals_per_hour = 0", "refusals_per_hour = 40").Replace(labTable)

// someCatchAll is a script of a host that has every ann, and accepts all recipients of domains that begin with all.
func someCatchAll(local, domain string) string {
	if strings.HasPrefix(domain, "all") {
		return "250 2.1.5 ok"
	}
	return knowsAnn(local)
}

// underSuspicion brings a host under suspicion for an hour, by refusals of unknown mailboxes, and then does f.
func underSuspicion(t *testing.T, rcpt func(local, domain string) string, before, f func(*lab, *host)) {
	h := &host{byDom: rcpt}
	inLab(t, oneByHour, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		if before != nil {
			before(b, h)
		}
		for _, r := range b.verify(time.Minute, b.rows(mxa, unknown(0, 20)...)...) {
			require.Equal(t, "INVALID mailbox_not_found", spell(r.Verdict))
		}
		f(b, h)
	})
}

// unknown are addresses that do not exist.
func unknown(from, to int) (addrs []string) {
	for i := from; i < to; i++ {
		addrs = append(addrs, fmt.Sprintf("nobody%d@known.example", i))
	}
	return addrs
}

// last verifies an address at the last of its attempts, when nothing is put off any more.
func (b *lab) last(addr string) wire.Result {
	row := b.rows(mxa, addr)[0]
	row.Attempt = 2
	return b.verify(time.Minute, row)[row.Number]
}

// TestCatchAllIsShownUnderSuspicion: at a host under suspicion an accepted decoy shows that its domain accepts everybody once the host has
// refused another recipient after it, whether for good or in a temporary reply that names an unknown user. The next list knows it.
func TestCatchAllIsShownUnderSuspicion(t *testing.T) {
	for _, refusal := range []string{"550 5.1.1 User unknown", "450 4.1.1 unverified address: host mx said: 550 User unknown"} {
		rcpt := func(local, domain string) string {
			if strings.HasPrefix(local, "nobody20") {
				return refusal
			}
			return someCatchAll(local, domain)
		}
		underSuspicion(t, rcpt, nil, func(b *lab, h *host) {
			rows := b.rows(mxa, append([]string{"ann@all1.example", "bob@all2.example"}, unknown(200, 206)...)...)
			got := b.verify(time.Minute, rows...)
			for _, r := range rows[:2] {
				require.Equal(t, wire.Settled, got[r.Number].Outcome)
				require.Equal(t, "RISKY catch_all", spell(got[r.Number].Verdict), refusal)
			}
			asked := h.count("RCPT")
			got = b.verify(time.Minute, b.rows(mxa, "cid@all1.example")...)
			for _, r := range got {
				require.Equal(t, "RISKY catch_all", spell(r.Verdict))
			}
			require.Equal(t, asked+1, h.count("RCPT"), "the decoy of a domain is asked once: %v", h.saw().log)
		})
	}
}

// TestSuspicionIsNotKept: a domain whose decoy was accepted under suspicion, and no refusal after it, is left unconfirmed, for lists and
// singles. That is not kept: when the suspicion is over, the domain gets the verdict that it gets in a fresh run.
func TestSuspicionIsNotKept(t *testing.T) {
	underSuspicion(t, someCatchAll, nil, func(b *lab, h *host) {
		time.Sleep(30 * time.Minute)
		require.Equal(t, wire.Deferred, b.verify(time.Minute, b.rows(mxa, "ann@all1.example")...)[b.row.Load()].Outcome)
		require.Equal(t, "RISKY accepted_unconfirmed", spell(b.last("bob@all1.example").Verdict))
		require.Equal(t, "RISKY accepted_unconfirmed", spell(b.single(time.Minute, mxa, "cid@all2.example")))
		time.Sleep(35 * time.Minute) // less than the lab's greatest age of a cached verdict
		require.Equal(t, "RISKY catch_all", spell(b.last("bob@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", spell(b.single(time.Minute, mxa, "cid@all2.example")))
	})
}

// TestCatchAllStaysOne: what a decoy has shown before the suspicion is believed under it, by lists and singles, and is not asked again.
func TestCatchAllStaysOne(t *testing.T) {
	before := func(b *lab, h *host) {
		require.Equal(t, "RISKY catch_all", spell(b.last("ann@all1.example").Verdict))
	}
	underSuspicion(t, someCatchAll, before, func(b *lab, h *host) {
		asked := h.count("RCPT")
		require.Equal(t, "RISKY catch_all", spell(b.last("ann@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", spell(b.last("bob@all1.example").Verdict))
		require.Equal(t, "RISKY catch_all", spell(b.single(time.Minute, mxa, "cid@all1.example")))
		require.Equal(t, asked+2, h.count("RCPT"), "%v", h.saw().log)
	})
}

// TestSilenceIsNoCatchAll: a host that has fallen silent shows nothing: domains that it was not asked about before are neither VALID nor
// catch-all while it accepts all recipients, and get their verdicts when its hour is over.
func TestSilenceIsNoCatchAll(t *testing.T) {
	var refused int
	var silent time.Time
	rcpt := func(local, domain string) string {
		if strings.HasPrefix(local, "ann") || time.Now().Before(silent) {
			return "250 2.1.5 ok"
		}
		if refused++; refused == 20 {
			silent = time.Now().Add(time.Hour)
		}
		return "550 5.1.1 User unknown"
	}
	underSuspicion(t, rcpt, nil, func(b *lab, h *host) {
		time.Sleep(30 * time.Minute)
		addrs := append([]string{"ann@new1.example", "nobody@new2.example"}, unknown(20, 40)...)
		for _, r := range b.verify(time.Minute, b.rows(mxa, addrs...)...) {
			if r.Outcome == wire.Settled {
				require.Equal(t, "RISKY accepted_unconfirmed", spell(r.Verdict))
			}
		}
		require.Equal(t, "RISKY accepted_unconfirmed", spell(b.last("ann@new1.example").Verdict))
		time.Sleep(35 * time.Minute)
		require.Equal(t, "VALID", spell(b.last("ann@new1.example").Verdict))
		require.Equal(t, "INVALID mailbox_not_found", spell(b.last("nobody@new2.example").Verdict))
	})
}
