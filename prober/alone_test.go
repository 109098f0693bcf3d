package prober

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func TestAloneNothingIsAskedAndNothingIsLost(t *testing.T) {
	mx := &host{rcpt: knows("ann", "bob")}
	inLab(t, labTable, nil, map[string]*host{"mx.site.example": mx}, func(b *lab) {
		b.prober.SetAlone(true)
		got := b.verify(5*time.Second, b.rows([]string{"mx.site.example"}, "ann@site.example")...)
		for _, r := range got {
			require.Equal(t, wire.Later, r.Outcome)
		}
		require.Zero(t, mx.count("RCPT"))
		done := make(chan string, 1)
		go func() { done <- spell(b.single(20*time.Second, []string{"mx.site.example"}, "bob@site.example")) }()
		time.Sleep(5 * time.Second)
		require.Zero(t, mx.count("RCPT"))
		b.prober.SetAlone(false)
		require.Equal(t, "VALID", <-done)
	})
}

// A session in the middle of its work ends with the transaction that it has sent.
func TestAloneSessionsLeave(t *testing.T) {
	mx := &host{rcpt: knows()}
	inLab(t, labTable, nil, map[string]*host{"mx.site.example": mx}, func(b *lab) {
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "ann@site.example")...)
		b.prober.SetAlone(true)
		time.Sleep(time.Second)
		require.Zero(t, mx.saw().open)
		before := mx.count("RCPT")
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "bob@site.example", "eve@site.example")...)
		require.Equal(t, before, mx.count("RCPT"))
	})
}

// A node that comes back asks nothing more for rows that were handed back: another source may have used up the route's hour, or may
// have a tenant's domain by now.
func TestAloneNarrowRoutesAreForgotten(t *testing.T) {
	tenants := strings.Replace(labTable, "name = \"Big\"", "name = \"Big\"\ntenants = true", 1)
	for table, home := range map[string]string{labTable: "mx.site.example", tenants: "mx.big.example"} {
		mx := &host{rcpt: knows("ann"), slow: time.Second}
		inLab(t, table, nil, map[string]*host{home: mx}, func(b *lab) {
			time.AfterFunc(2500*time.Millisecond, func() { b.prober.SetAlone(true) }) // the target is asked, its decoy is not
			row := b.rows([]string{home}, "ann@site.example")
			require.Equal(t, wire.Later, b.verify(10*time.Second, row...)[row[0].Number].Outcome)
			require.Equal(t, 1, mx.count("RCPT"))
			b.prober.SetAlone(false)
			time.Sleep(time.Hour)
			require.Equal(t, 1, mx.count("RCPT"))
			require.Zero(t, b.prober.rows.Load())
			require.Equal(t, "VALID", spell(b.verify(time.Minute, row...)[row[0].Number].Verdict))
			require.Equal(t, 3, mx.count("RCPT"), "the target and its decoy")
		})
	}
}

func TestSickSourcesSendCanaries(t *testing.T) {
	var h health
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range sickFails - 1 {
		require.False(t, h.connected(false, strconv.Itoa(i%sickRoutes), now))
	}
	require.True(t, h.connected(false, "0", now))
	require.True(t, h.isSick())
	require.Equal(t, now.Add(canaryEvery), h.tryAt(false, now))
	later := now.Add(canaryEvery)
	require.Zero(t, h.tryAt(false, later), "the canary goes")
	require.Equal(t, later.Add(canaryEvery), h.tryAt(false, later), "and no other with it")
	require.True(t, h.connected(true, "9", later))
	require.False(t, h.isSick())
	require.Zero(t, h.tryAt(false, later))

	few := health{}
	for range 10 * sickFails {
		require.False(t, few.connected(false, "one route", now), "one route that does not answer is no sickness of ours")
	}
}

func TestWindowsFollowBudgets(t *testing.T) {
	inLab(t, "", nil, nil, func(b *lab) {
		p := b.prober
		require.Equal(t, mostWindow, p.Window("tail"))
		require.Equal(t, leastWindow, p.Window("outlook@192.0.2.1"), "never so few that sessions starve")
		require.GreaterOrEqual(t, p.Window("google"), p.Window("google@192.0.2.1"))
	})
}
