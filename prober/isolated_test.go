package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func TestIsolatedNodeAsksNothingAndLosesNothing(t *testing.T) {
	mx := &fakeServer{rcpt: acceptsOnly("ann", "bob")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
		b.prober.SetIsolated(true)
		got := b.verify(5*time.Second, b.rows([]string{"mx.site.example"}, "ann@site.example")...)
		for _, r := range got {
			require.Equal(t, wire.Returned, r.Outcome)
		}
		require.Zero(t, mx.count("RCPT"))
		done := make(chan string, 1)
		go func() { done <- verdictText(b.single(20*time.Second, []string{"mx.site.example"}, "bob@site.example")) }()
		time.Sleep(5 * time.Second)
		require.Zero(t, mx.count("RCPT"))
		b.prober.SetIsolated(false)
		require.Equal(t, "VALID", <-done)
	})
}

// A busy session ends after the transaction that it has sent.
func TestIsolatedNodeClosesItsSessions(t *testing.T) {
	mx := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "ann@site.example")...)
		b.prober.SetIsolated(true)
		time.Sleep(time.Second)
		require.Zero(t, mx.snapshot().open)
		before := mx.count("RCPT")
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "bob@site.example", "eve@site.example")...)
		require.Equal(t, before, mx.count("RCPT"))
	})
}

// A node that goes on asks nothing more for rows that were returned: another source may have used up the route's hourly
// budget, or may have a tenant's domain by now.
func TestIsolatedNodeDropsWaitersOfNarrowRoutes(t *testing.T) {
	tenants := strings.Replace(testTable, "name = \"Big\"", "name = \"Big\"\ntenants = true", 1)
	for table, home := range map[string]string{testTable: "mx.site.example", tenants: "mx.big.example"} {
		sent := 3
		if home == "mx.site.example" {
			sent++
		}
		mx := &fakeServer{rcpt: acceptsOnly("ann"), replyDelay: time.Second}
		withTestNode(t, table, nil, map[string]*fakeServer{home: mx}, func(b *testNode) {
			// the target is asked, its decoy is not
			time.AfterFunc(2500*time.Millisecond, func() { b.prober.SetIsolated(true) })
			row := b.rows([]string{home}, "ann@site.example")
			require.Equal(t, wire.Returned, b.verify(10*time.Second, row...)[row[0].Number].Outcome)
			require.Equal(t, 1, mx.count("RCPT"))
			b.prober.SetIsolated(false)
			time.Sleep(time.Hour)
			require.Equal(t, 1, mx.count("RCPT"))
			require.Zero(t, b.prober.rows.Load())
			require.Equal(t, "VALID", verdictText(b.verify(time.Minute, row...)[row[0].Number].Verdict))
			require.Equal(t, sent, mx.count("RCPT"), "the target again and its decoy, and a control at an unknown host")
		})
	}
}

func TestWindowFollowsBudgets(t *testing.T) {
	withTestNode(t, "", nil, nil, func(b *testNode) {
		p := b.prober
		require.Equal(t, maxWindow, p.Window("tail"))
		require.Equal(t, minWindow, p.Window("outlook#job"), "never so few that sessions starve")
		require.Greater(t, p.Window("google#job"), minWindow)
	})
}
