package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// Rows that go home bear the word of a budget, and none where there is none: the bound of a wait is nobody's word.
func TestLaterIsABudgetsWord(t *testing.T) {
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": {}}, func(b *lab) {
		row := b.rows(mxa, "ann@a.example")[0]
		now := time.Now()
		l := b.prober.laneOf(row.Route, b.prober.egress.list[0], now)
		require.Zero(t, l.later(now))
		l.mu.Lock()
		g := l.placeOf(&(&probe{}).ev, "mx.a.example").group
		l.mu.Unlock()
		for _, x := range []struct{ until, want time.Time }{
			{time.Time{}, time.Time{}},
			{now.Add(20 * time.Second), now.Add(20 * time.Second)},
			{now.Add(time.Hour), now.Add(time.Hour)},
		} {
			l.mu.Lock()
			l.block(g, bulk, x.until, now)
			l.mu.Unlock()
			require.Equal(t, x.want, l.later(now))
		}
		l.mu.Lock()
		l.free(g)
		l.pause(now.Add(time.Minute))
		l.mu.Unlock()
		require.Equal(t, now.Add(time.Minute), l.later(now))
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
