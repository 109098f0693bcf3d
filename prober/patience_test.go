package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADecoyPutOffForAMoment: a host that greets once with a refusal between the target and its decoy is greeted again soon: a
// single has its answer in time.
func TestADecoyPutOffForAMoment(t *testing.T) {
	for _, banner := range []string{"451 4.3.2 busy", "421 4.3.2 busy", "554 5.3.2 not now"} {
		h := &host{}
		h.rcpt = func(local string) string {
			if local != "ann" {
				return "550 5.1.1 User unknown"
			}
			h.note(func() { h.banner = banner })
			time.AfterFunc(500*time.Millisecond, func() { h.note(func() { h.banner = "" }) })
			return "250 ok"
		}
		alone := limited("recipients_per_connection = 0", "recipients_per_connection = 1")
		inLab(t, alone, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			began := time.Now()
			require.Equal(t, "VALID", spell(b.single(20*time.Second, mxa, "ann@a.example")), banner)
			require.Less(t, time.Since(began), 5*time.Second)
		})
	}
}

// TestNamesFailWhileADecoyWaits: minutes without a resolver that answers cost a row that waits for its decoy time, and no verdict;
// a name that is broken for good is told.
func TestNamesFailWhileADecoyWaits(t *testing.T) {
	for outage, want := range map[time.Duration]string{2 * time.Minute: "VALID", 5 * time.Minute: "VALID", 50 * time.Minute: "RISKY accepted_unconfirmed"} {
		h := &host{rcpt: knows("ann")}
		inLab(t, oneAMinute, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			b.fleeting.Store(true)
			time.AfterFunc(50*time.Second, func() { b.nameless.Store(true) })
			time.AfterFunc(50*time.Second+outage, func() { b.nameless.Store(false) })
			rows := b.rows(mxa, "ann@a.example")
			require.Equal(t, want, spell(b.verify(time.Hour, rows...)[rows[0].Number].Verdict), outage)
		})
	}
}

// TestIdleSessionHearsOfItsLease: what is worth no connection of its own goes out on the one that waits, as soon as it may.
func TestIdleSessionHearsOfItsLease(t *testing.T) {
	for _, n := range []int{4, 5, 6, 8} {
		h := &host{rcpt: knows("ann")}
		inLab(t, limited("refusals_per_hour = 0", "refusals_per_hour = 20"), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			began := time.Now()
			b.verify(time.Minute, b.rows(mxa, addresses(n, "a.example")...)...)
			require.Less(t, time.Since(began), 100*time.Millisecond, "%d rows", n)
		})
	}
}

// TestDeniedDestinationIsForgotten: an address whose hour was used up when the last rows came is not kept for ever.
func TestDeniedDestinationIsForgotten(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	hosts := hostAliases(map[string]*host{}, h, 2)
	inLab(t, limited("refusals_per_hour = 0", "refusals_per_hour = 5"), nil, hosts, func(b *lab) {
		b.verify(time.Minute, b.rows([]string{"mx0.example"}, addresses(5, "a.example")...)...)
		time.Sleep(5 * time.Second)
		b.verify(time.Minute, b.rows([]string{"mx1.example"}, addresses(5, "b.example")...)...)
		time.Sleep(12 * time.Hour)
		require.Empty(t, b.prober.allLanes())
		b.prober.dests.mu.Lock()
		defer b.prober.dests.mu.Unlock()
		require.Empty(t, b.prober.dests.all)
	})
}

// TestIdleSessionsLeaveWhoSendsUsAway: a receiver that quarantines us, or that the table forbids, has no connection of ours left.
func TestIdleSessionsLeaveWhoSendsUsAway(t *testing.T) {
	free := strings.Replace(labTable, "connections = 2", "connections = 0", 1)
	for name, away := range map[string]func(*lab){
		"quarantine": func(b *lab) { b.single(time.Second, mxa, "bob@b.example") },
		"off":        func(b *lab) { b.prober.SetTable(offTable(t, "mx.a.example")) },
	} {
		h := &host{slow: 50 * time.Millisecond, rcpt: func(local string) string {
			if local == "bob" {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 User unknown"
		}}
		inLab(t, free, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			b.verify(time.Minute, b.rows(mxa, addresses(2000, "a.example")...)...)
			require.NotZero(t, h.saw().open)
			away(b)
			time.Sleep(300 * time.Millisecond) // a goodbye is a round trip or two
			require.Zero(t, h.saw().open, name)
		})
	}
}
