package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// gatheredOf is rows of so many hosts.
func gatheredOf(rows, hosts int) *gathered {
	table := engine.DefaultTable()
	g := &gathered{since: time.Now()}
	vias := make([]via, hosts)
	for i := range vias {
		vias[i].Route = table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example", i)}})
	}
	for i := range uint32(rows) {
		g.add(&ask{Number: i, Via: &vias[int(i)%hosts], Mailbox: "user"})
	}
	return g
}

// TestAHungryDeskIsFed says which rows are sent though their chunk is not full: those of few hosts once little of their class is
// under way, those of many a second later, both later while the desk has work of other jobs, and none while it has chunks of them.
func TestAHungryDeskIsFed(t *testing.T) {
	few, many := gatheredOf(200, 2), gatheredOf(200, 100)
	tests := []struct {
		name string
		rows *gathered
		has  stock
		idle bool          // the desk
		want time.Duration // never, for -1
	}{
		{"few hosts", few, stockLow, true, 0},
		{"few hosts, others have work", few, stockLow, false, gatherWait},
		{"few hosts, under way", few, stockAsked, true, fedWait},
		{"few hosts, waiting", few, stockReady, true, -1},
		{"many hosts", many, stockLow, true, gatherWait},
		{"many hosts, others have work", many, stockLow, false, fedWait},
		{"many hosts, under way", many, stockAsked, true, fedWait},
		{"many hosts, waiting", many, stockReady, true, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want < 0 {
				require.False(t, test.rows.ripe(test.has, test.idle, test.rows.since.Add(time.Hour)))
				return
			}
			require.True(t, test.rows.ripe(test.has, test.idle, test.rows.since.Add(test.want)))
			if test.want > 0 {
				require.False(t, test.rows.ripe(test.has, test.idle, test.rows.since.Add(test.want-1)))
			}
		})
	}
}

// TestStocks says what the desk has of each class while its chunks go out, are answered and land, and when it is idle.
func TestStocks(t *testing.T) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable()})
	l := &live{c: c, queues: map[string]*queue{}, paces: map[string]*classPace{}}
	has := func(want map[string]stock, idle bool) {
		t.Helper()
		got, is := c.desk.stocks(l)
		require.Equal(t, want, got)
		require.Equal(t, idle, is)
	}
	none := map[string]stock{}
	has(none, false)
	c.desk.pick(time.Now())
	has(none, true)
	c.desk.add(l, []chunk{{class: "google", rows: 1000}})
	c.desk.enter(l)
	has(map[string]stock{"google": stockReady}, true)
	next, _ := c.desk.pick(time.Now())
	has(map[string]stock{"google": stockAsked}, false)
	f := &flight{l: l, q: next.q, chunk: next.c, span: next.span, rows: &chunkRows{}}
	c.desk.answered(f, 500)
	has(map[string]stock{"google": stockAsked}, false)
	c.desk.answered(f, 1)
	has(none, false)
	f.left = 499
	c.desk.landed(f)
	require.Zero(t, c.desk.room.asked)
	require.Empty(t, l.queues)
	c.desk.pick(time.Now())
	has(none, true)
}
