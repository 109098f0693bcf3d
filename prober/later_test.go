package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// Rows that go home bear the word of a budget, and none where there is none: the bound of a wait is nobody's word.
func TestLaterIsABudgetsWord(t *testing.T) {
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": {}}, func(b *lab) {
		row := b.rows(mxa, "ann@a.example")[0]
		now := time.Now()
		l := b.prober.laneOf(row.Route, b.prober.egress.list[0], now)
		require.Zero(t, l.later(bulk, now))
		l.mu.Lock()
		g := l.placeOf(&engine.Evidence{Route: row.Route}, "mx.a.example").group
		l.mu.Unlock()
		for _, x := range []struct{ until, want time.Time }{
			{time.Time{}, time.Time{}},
			{now.Add(20 * time.Second), now.Add(20 * time.Second)},
			{now.Add(time.Hour), now.Add(time.Hour)},
		} {
			l.mu.Lock()
			l.block(g, bulk, x.until, now)
			l.mu.Unlock()
			require.Equal(t, x.want, l.later(bulk, now))
		}
		l.mu.Lock()
		l.free(g)
		l.pause(now.Add(time.Minute))
		l.mu.Unlock()
		require.Equal(t, now.Add(time.Minute), l.later(bulk, now))
	})
}

// Many routes that lead to one address wait for it without a due time of their own.
func TestRowsWaitingForAnAddressComeHomeWithoutDue(t *testing.T) {
	slow := &host{addr: aliasAddr, rcpt: func(string) string { return "-" }}
	alias := func() *host { return &host{addr: aliasAddr, down: true} }
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": slow, "mx.b.example": alias(), "mx.c.example": alias()}, func(b *lab) {
		rows := append(b.rows(mxa, "ann@a.example"), b.rows([]string{"mx.b.example"}, "bob@b.example")...)
		rows = append(rows, b.rows([]string{"mx.c.example"}, "cid@c.example")...)
		for _, r := range b.verify(10*time.Second, rows...) {
			require.Equal(t, wire.Later, r.Outcome)
			require.Zero(t, r.Due)
		}
	})
}

// A lane that asks nobody for a while keeps no rows: they go home at once, so that whoever waits sees for what.
func TestRowsOfAPausedLaneGoHomeAtOnce(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		row := b.rows(mxa, "ann@a.example")[0]
		start := time.Now()
		l := b.prober.laneOf(row.Route, b.prober.egress.list[0], start)
		l.mu.Lock()
		l.pause(start.Add(time.Minute))
		l.mu.Unlock()
		got := b.verify(30*time.Second, row)[row.Number]
		require.Equal(t, wire.Later, got.Outcome)
		require.Equal(t, start.Add(time.Minute), got.Due)
		require.Less(t, time.Since(start), time.Second)
		time.Sleep(time.Minute)
		require.Equal(t, "VALID", spell(b.verify(30*time.Second, row)[row.Number].Verdict))
	})
}

// Rows that were put off are not kept by one that a silent host keeps.
func TestOneSlowHostDoesNotHoldAChunk(t *testing.T) {
	slow, quick := &host{rcpt: func(string) string { return "-" }}, &host{rcpt: grey(knows())}
	inLab(t, labTable, nil, map[string]*host{"mx.s.example": slow, "mx.a.example": quick}, func(b *lab) {
		var addrs []string
		for i := range 30 {
			addrs = append(addrs, fmt.Sprintf("ann%d@a.example", i))
		}
		rows := append(b.rows([]string{"mx.s.example"}, "ann@s.example"), b.rows(mxa, addrs...)...)
		start := time.Now()
		got := b.verify(time.Minute, rows...)
		require.Less(t, time.Since(start), 6*time.Second)
		require.Equal(t, wire.Later, got[rows[0].Number].Outcome)
		require.Zero(t, got[rows[0].Number].Due)
		require.Equal(t, wire.Deferred, got[rows[1].Number].Outcome)

		alone := time.Now()
		b.verify(time.Minute, rows[0])
		require.GreaterOrEqual(t, time.Since(alone), 30*time.Second, "alone it is held")
	})
}
