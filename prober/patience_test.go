package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDecoyIsRetriedSoonAfterABusyGreeting: a host that once refuses at the greeting, between the target and its decoy,
// is tried again soon: a single call gets its answer in time.
func TestDecoyIsRetriedSoonAfterABusyGreeting(t *testing.T) {
	for _, banner := range []string{"451 4.3.2 busy", "421 4.3.2 busy", "554 5.3.2 not now"} {
		h := &fakeServer{}
		h.rcpt = func(local string) string {
			if local != "ann" {
				return "550 5.1.1 User unknown"
			}
			h.withLock(func() { h.banner = banner })
			time.AfterFunc(500*time.Millisecond, func() { h.withLock(func() { h.banner = "" }) })
			return "250 ok"
		}
		isolated := tableWith("recipients_per_connection = 0", "recipients_per_connection = 1")
		withTestNode(t, isolated, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			began := time.Now()
			require.Equal(t, "VALID", verdictText(b.single(20*time.Second, mxA, "ann@a.example")), banner)
			require.Less(t, time.Since(began), 5*time.Second)
		})
	}
}

// TestDNSFailureWhileADecoyWaits: minutes without DNS delay a row that waits for its decoy and do not decide it; a name
// that stays broken is reported.
func TestDNSFailureWhileADecoyWaits(t *testing.T) {
	for outage, want := range map[time.Duration]string{2 * time.Minute: "VALID", 5 * time.Minute: "VALID",
		50 * time.Minute: "RISKY accepted_unconfirmed"} {
		h := &fakeServer{rcpt: acceptsOnly("ann")}
		withTestNode(t, onePerMinuteTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			b.shortTTL.Store(true)
			time.AfterFunc(50*time.Second, func() { b.dnsFails.Store(true) })
			time.AfterFunc(50*time.Second+outage, func() { b.dnsFails.Store(false) })
			rows := b.rows(mxA, "ann@a.example")
			require.Equal(t, want, verdictText(b.verify(time.Hour, rows...)[rows[0].Number].Verdict), outage)
		})
	}
}

// TestIdleSessionWakesWhenLeaseIsGranted: rows that justify no new connection go out on an idle one once a lease is
// granted.
func TestIdleSessionWakesWhenLeaseIsGranted(t *testing.T) {
	for _, n := range []int{4, 5, 6, 8} {
		h := &fakeServer{rcpt: acceptsOnly("ann")}
		withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 20"), nil,
			map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				began := time.Now()
				b.verify(time.Minute, b.rows(mxA, numberedAddresses(n, "a.example")...)...)
				require.Less(t, time.Since(began), 100*time.Millisecond, "%d rows", n)
			})
	}
}

// TestIdleAddressLimitIsRemoved: an address whose hour was used up when the last rows came is not kept for ever.
func TestIdleAddressLimitIsRemoved(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	hosts := withAliases(map[string]*fakeServer{}, h, 2)
	withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 5"), nil, hosts, func(b *testNode) {
		b.verify(time.Minute, b.rows([]string{"mx0.example"}, numberedAddresses(5, "a.example")...)...)
		time.Sleep(5 * time.Second)
		b.verify(time.Minute, b.rows([]string{"mx1.example"}, numberedAddresses(5, "b.example")...)...)
		time.Sleep(12 * time.Hour)
		require.Empty(t, b.prober.allQueues())
		require.Empty(t, b.prober.env.AddressLimits.FinalStates(time.Now()))
	})
}

// TestQuarantineClosesIdleSessions: no connection stays open to a receiver that quarantines us, or that the table
// excludes.
func TestQuarantineClosesIdleSessions(t *testing.T) {
	free := strings.Replace(testTable, "connections = 2", "connections = 0", 1)
	for name, away := range map[string]func(*testNode){
		"quarantine": func(b *testNode) { b.single(time.Second, mxA, "bob@b.example") },
		"off":        func(b *testNode) { b.prober.SetTable(disabledTable(t, "mx.a.example")) },
	} {
		h := &fakeServer{replyDelay: 50 * time.Millisecond, rcpt: func(local string) string {
			if local == "bob" {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 User unknown"
		}}
		withTestNode(t, free, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			b.verify(time.Minute, b.rows(mxA, numberedAddresses(2000, "a.example")...)...)
			require.NotZero(t, h.snapshot().open)
			away(b)
			time.Sleep(300 * time.Millisecond) // QUIT takes a round trip or two
			require.Zero(t, h.snapshot().open, name)
		})
	}
}
