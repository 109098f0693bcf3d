package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// TestFarHostsHoldNoTurn asks sixty far hosts while the processor is busy: the turnstile lets four in at one time, and those who
// wait for a reply are not inside. Were they, each host would hold a place for half a second of round trips.
func TestFarHostsHoldNoTurn(t *testing.T) {
	hosts := map[string]*host{}
	for i := range 60 {
		hosts[fmt.Sprintf("mx%d.a.example", i)] = &host{slow: 100 * time.Millisecond}
	}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		b.prober.stile.ready = func() int { return 1000 }
		b.prober.stile.procs, b.prober.stile.limit = 2, 2*leastInside
		b.prober.horizon.far = true
		var rows []wire.Row
		for name := range hosts {
			rows = append(rows, b.rows([]string{name}, fmt.Sprintf("ann@d%d.example", len(rows)))...)
		}
		for i := range rows {
			rows[i].Number = uint32(i)
		}
		start := time.Now()
		require.Len(t, b.verify(time.Minute, rows...), len(rows))
		require.Less(t, time.Since(start), 2*time.Second)
	})
}

// TestHorizonIsTheNearestOfTheLast holds a view of several connections: one slow host is not all.
func TestHorizonIsTheNearestOfTheLast(t *testing.T) {
	var h horizon
	for i, took := range []time.Duration{farAway, time.Millisecond, farAway} {
		for range views - 1 {
			h.reached(2 * farAway)
		}
		h.reached(took)
		require.Equal(t, i != 1, h.isFar(), took)
	}
}
