package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHighLatencyHostsGetMoreConnections asks a host that takes one recipient at a time: with low latency one
// connection is enough; with high latency one round trip each would take twenty seconds.
func TestHighLatencyHostsGetMoreConnections(t *testing.T) {
	const rows = 400
	for what, c := range map[string]struct {
		slow        time.Duration
		least, most int
		within      time.Duration
	}{
		"near": {0, 1, 3, time.Second},
		"far":  {50 * time.Millisecond, 16, 250, 5 * time.Second},
	} {
		h := &fakeServer{noPipelining: true, replyDelay: c.slow}
		withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = 0", 1), nil,
			map[string]*fakeServer{"mx.far.example": h}, func(b *testNode) {
				var addrs []string
				for i := range rows {
					addrs = append(addrs, fmt.Sprintf("user%d@far.example", i))
				}
				began := time.Now()
				b.verify(time.Hour, b.rows([]string{"mx.far.example"}, addrs...)...)
				require.LessOrEqual(t, time.Since(began), c.within, what)
				peak := h.snapshot().peak
				require.GreaterOrEqual(t, peak, c.least, what)
				require.LessOrEqual(t, peak, c.most, what)
				t.Logf("%s: %d rows in %s over %d connections", what, rows, time.Since(began), peak)
			})
	}
}

// TestHostsThatCloseEarlyAreAskedOverMoreConnections: a high-latency host that closes after three recipients is asked
// over several connections if nothing limits them; one after another, each would take a set-up of its own.
func TestHostsThatCloseEarlyAreAskedOverMoreConnections(t *testing.T) {
	const rows = 60
	for limit, c := range map[string]struct {
		least, most int
		within      time.Duration
	}{
		"connections = 0": {5, 64, 15 * time.Second},
		"connections = 2": {1, 2, 2 * time.Minute},
	} {
		h := &fakeServer{maxAnswered: 3, replyDelay: 200 * time.Millisecond}
		withTestNode(t, strings.Replace(testTable, "connections = 2", limit, 1), nil,
			map[string]*fakeServer{"mx.early.example": h}, func(b *testNode) {
				var addrs []string
				for i := range rows {
					addrs = append(addrs, fmt.Sprintf("user%d@early.example", i))
				}
				began := time.Now()
				got := b.verify(time.Hour, b.rows([]string{"mx.early.example"}, addrs...)...)
				require.Len(t, got, rows)
				require.LessOrEqual(t, time.Since(began), c.within, limit)
				peak := h.snapshot().peak
				require.GreaterOrEqual(t, peak, c.least, limit)
				require.LessOrEqual(t, peak, c.most, limit)
				t.Logf("%s: %d rows in %s over %d connections at once", limit, rows, time.Since(began), peak)
			})
	}
}
