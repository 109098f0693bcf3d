package prober

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// Many routes that lead to one address wait for it without a due time of their own.
func TestRowsBlockedByAnAddressHaveNoDueTime(t *testing.T) {
	slow := &fakeServer{addr: aliasAddr, rcpt: func(string) string { return "-" }}
	alias := func() *fakeServer { return &fakeServer{addr: aliasAddr, down: true} }
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": slow, "mx.b.example": alias(),
		"mx.c.example": alias()}, func(b *testNode) {
		rows := append(b.rows(mxA, "ann@a.example"), b.rows([]string{"mx.b.example"}, "bob@b.example")...)
		rows = append(rows, b.rows([]string{"mx.c.example"}, "cid@c.example")...)
		for _, r := range b.verify(10*time.Second, rows...) {
			require.Equal(t, wire.Returned, r.Outcome)
			require.Zero(t, r.Due)
		}
	})
}

// pausingTable has a receiver whose reply pauses its queue for a minute.
const pausingTable = testTable + `
[[provider]]
id = "pausing"
name = "Pausing"
mx = ["mx.a.example"]
[[provider.rule]]
id = "wait"
text = ["wait a minute"]
meaning = "rate_limited"
blame = "us"
action = "pause"
for = "1m"
`

// A ready queue that asks no host for a while keeps no rows: they are returned at once, so that callers see what they
// wait for.
func TestPausedQueueReturnsRowsAtOnce(t *testing.T) {
	var first atomic.Bool
	h := &fakeServer{rcpt: func(local string) string {
		if local == "pauses" && first.CompareAndSwap(false, true) {
			return "450 4.7.1 wait a minute"
		}
		return acceptsOnly("ann")(local)
	}}
	withTestNode(t, pausingTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "UNKNOWN rate_limited", verdictText(b.single(time.Second, mxA, "pauses@a.example")))
		row := b.rows(mxA, "ann@a.example")[0]
		start := time.Now()
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
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.s.example": slow, "mx.a.example": quick},
		func(b *testNode) {
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
