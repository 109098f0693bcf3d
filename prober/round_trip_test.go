package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/admission"
	"probity/prober/wire"
	"probity/prober/wire/press"
)

// askSixtyHosts asks one row of each of sixty hosts while the processor is busy, so that the admission gate admits four
// at one time. The hosts take so long over each batch of replies, and rtt is the estimate for all of them.
func askSixtyHosts(t *testing.T, slow, rtt time.Duration, singles int) (took time.Duration) {
	hosts := map[string]*fakeServer{}
	for i := range 60 {
		hosts[fmt.Sprintf("mx%d.a.example", i)] = &fakeServer{replyDelay: slow}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		p := b.prober
		p.env.Gate = admission.NewGate(4, 2, func() int { return 1000 }, &p.singleCalls)
		for range 100 { // more than the estimate needs
			p.env.NodeRTT.Record(rtt)
		}
		require.Equal(t, rtt >= 100*time.Millisecond, p.env.NodeRTT.IsHigh())
		for range singles {
			p.singleCalls.Record(time.Now())
		}
		var rows []wire.Row
		for name := range hosts {
			rows = append(rows, b.rows([]string{name}, fmt.Sprintf("ann@d%d.example", len(rows)))...)
			rows[len(rows)-1].Number = uint32(len(rows))
		}
		start := time.Now()
		require.Len(t, b.verify(time.Minute, rows...), len(rows))
		took = time.Since(start)
	})
	return took
}

// TestHighLatencyHostsHoldNoAdmission: a session that waits for a reply is outside the gate. If it stayed inside, four
// at a time, each for half a second of round trips, sixty would take more than seven.
func TestHighLatencyHostsHoldNoAdmission(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Less(t, askSixtyHosts(t, slow, slow, 0), 2*time.Second)
}

// TestLowLatencyHostsKeepTheirAdmission: sixty at four at a time are fifteen times a banner, a greeting and a
// transaction.
func TestLowLatencyHostsKeepTheirAdmission(t *testing.T) {
	const slow = 9 * time.Millisecond
	require.Greater(t, askSixtyHosts(t, slow, slow, 0), 15*3*slow)
}

// TestHighLatencyHostsKeepTheirAdmissionUnderLoad: otherwise single calls would wait for the sessions that reenter.
func TestHighLatencyHostsKeepTheirAdmissionUnderLoad(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Greater(t, askSixtyHosts(t, slow, slow, 100*press.Least), askSixtyHosts(t, slow, slow, 0))
}

// TestRTTIsMeasuredFromOneCommand: whatever else a connection takes. Ten milliseconds and more are a high round-trip
// time.
func TestRTTIsMeasuredFromOneCommand(t *testing.T) {
	for slow, high := range map[time.Duration]bool{10*time.Millisecond - 1: false, 10 * time.Millisecond: true} {
		hosts := map[string]*fakeServer{}
		for i := range 60 { // more than the estimate needs
			hosts[fmt.Sprintf("mx%d.a.example", i)] = &fakeServer{replyDelay: slow}
		}
		withTestNode(t, testTable, nil, hosts, func(b *testNode) {
			var rows []wire.Row
			for name := range hosts {
				rows = append(rows, b.rows([]string{name}, fmt.Sprintf("ann@d%d.example", len(rows)))...)
				rows[len(rows)-1].Number = uint32(len(rows))
			}
			require.Len(t, b.verify(time.Minute, rows...), len(rows))
			require.Equal(t, high, b.prober.env.NodeRTT.IsHigh(), slow)
		})
	}
}
