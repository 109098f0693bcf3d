package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/wire"
)

// Rows that are returned carry a budget's due time if a budget limits them, and none otherwise: the bound of a wait is no due
// time.
func TestReturnedRowsCarryTheBudgetDueTime(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": {}}, func(b *testNode) {
		row := b.rows(mxA, "ann@a.example")[0]
		now := time.Now()
		q := b.prober.queueOf(row.Route, b.prober.sources.List[0], now)
		require.Zero(t, q.BudgetAllowsAt(budget.LongJob, now))
		q.mu.Lock()
		hq := q.domainQueueOf(&engine.Evidence{Route: row.Route}, "mx.a.example").hostQueue
		q.mu.Unlock()
		for _, x := range []struct{ until, want time.Time }{
			{time.Time{}, time.Time{}},
			{now.Add(20 * time.Second), now.Add(20 * time.Second)},
			{now.Add(time.Hour), now.Add(time.Hour)},
		} {
			q.mu.Lock()
			hq.block(budget.LongJob, x.until, now)
			q.mu.Unlock()
			require.Equal(t, x.want, q.BudgetAllowsAt(budget.LongJob, now))
		}
		q.mu.Lock()
		hq.endBlock()
		q.pause(now.Add(time.Minute))
		q.mu.Unlock()
		require.Equal(t, now.Add(time.Minute), q.BudgetAllowsAt(budget.LongJob, now))
	})
}

// Many routes that lead to one address wait for it without a due time of their own.
func TestRowsBlockedByAnAddressHaveNoDueTime(t *testing.T) {
	slow := &fakeServer{addr: aliasAddr, rcpt: func(string) string { return "-" }}
	alias := func() *fakeServer { return &fakeServer{addr: aliasAddr, down: true} }
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": slow, "mx.b.example": alias(), "mx.c.example": alias()}, func(b *testNode) {
		rows := append(b.rows(mxA, "ann@a.example"), b.rows([]string{"mx.b.example"}, "bob@b.example")...)
		rows = append(rows, b.rows([]string{"mx.c.example"}, "cid@c.example")...)
		for _, r := range b.verify(10*time.Second, rows...) {
			require.Equal(t, wire.Returned, r.Outcome)
			require.Zero(t, r.Due)
		}
	})
}

// A ready queue that asks no host for a while keeps no rows: they are returned at once, so that callers see what they wait for.
func TestPausedQueueReturnsRowsAtOnce(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		row := b.rows(mxA, "ann@a.example")[0]
		start := time.Now()
		q := b.prober.queueOf(row.Route, b.prober.sources.List[0], start)
		q.mu.Lock()
		q.pause(start.Add(time.Minute))
		q.mu.Unlock()
		got := b.verify(30*time.Second, row)[row.Number]
		require.Equal(t, wire.Returned, got.Outcome)
		require.Equal(t, start.Add(time.Minute), got.Due)
		require.Less(t, time.Since(start), time.Second)
		time.Sleep(time.Minute)
		require.Equal(t, "VALID", verdictText(b.verify(30*time.Second, row)[row.Number].Verdict))
	})
}

// Rows that were deferred are not kept by one that a silent host keeps.
func TestSlowHostDoesNotHoldABatch(t *testing.T) {
	slow, quick := &fakeServer{rcpt: func(string) string { return "-" }}, &fakeServer{rcpt: greylist(acceptsOnly())}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.s.example": slow, "mx.a.example": quick}, func(b *testNode) {
		var addrs []string
		for i := range 30 {
			addrs = append(addrs, fmt.Sprintf("ann%d@a.example", i))
		}
		rows := append(b.rows([]string{"mx.s.example"}, "ann@s.example"), b.rows(mxA, addrs...)...)
		start := time.Now()
		got := b.verify(time.Minute, rows...)
		require.Less(t, time.Since(start), 6*time.Second)
		require.Equal(t, wire.Returned, got[rows[0].Number].Outcome)
		require.Zero(t, got[rows[0].Number].Due)
		require.Equal(t, wire.Deferred, got[rows[1].Number].Outcome)

		isolated := time.Now()
		b.verify(time.Minute, rows[0])
		require.GreaterOrEqual(t, time.Since(isolated), 30*time.Second, "alone it is held")
	})
}
