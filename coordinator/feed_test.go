package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store"
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
// under way, those of many a second later, and none while the desk has chunks of them.
func TestAHungryDeskIsFed(t *testing.T) {
	few, many := gatheredOf(200, 2), gatheredOf(200, 100)
	tests := []struct {
		name string
		rows *gathered
		has  stock
		want time.Duration // never, for -1
	}{
		{"few hosts", few, stockLow, 0},
		{"few hosts, under way", few, stockAsked, fedWait},
		{"few hosts, waiting", few, stockReady, -1},
		{"many hosts", many, stockLow, gatherWait},
		{"many hosts, under way", many, stockAsked, fedWait},
		{"many hosts, waiting", many, stockReady, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want < 0 {
				require.False(t, test.rows.ripe(test.has, test.rows.since.Add(time.Hour)))
				return
			}
			require.True(t, test.rows.ripe(test.has, test.rows.since.Add(test.want)))
			if test.want > 0 {
				require.False(t, test.rows.ripe(test.has, test.rows.since.Add(test.want-1)))
			}
		})
	}
}

// TestStocks says what the desk has of each class while its chunks go out, are answered and land.
func TestStocks(t *testing.T) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable()})
	l := &live{c: c, queues: map[string]*queue{}, paces: map[string]*classPace{}}
	require.Empty(t, c.desk.stocks(l))
	c.desk.add(l, []store.Chunk{{Class: "google", Rows: 1000}})
	c.desk.enter(l)
	require.Equal(t, map[string]stock{"google": stockReady}, c.desk.stocks(l))
	next, _ := c.desk.pick(time.Now())
	require.Equal(t, map[string]stock{"google": stockAsked}, c.desk.stocks(l))
	f := &flight{l: l, q: next.q, chunk: next.c, span: next.span, rows: &chunkRows{}}
	c.desk.answered(f, 500)
	require.Equal(t, map[string]stock{"google": stockAsked}, c.desk.stocks(l))
	c.desk.answered(f, 1)
	require.Empty(t, c.desk.stocks(l))
	f.left = 499
	c.desk.landed(f)
	require.Zero(t, c.desk.room.asked)
	require.Empty(t, l.queues)
}
