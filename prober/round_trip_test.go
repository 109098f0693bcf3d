package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/press"
)

// askSixtyHosts asks one row of each of sixty hosts while the processor is busy, so that the admission gate admits four at one
// time. The hosts take so long over each batch of replies, and rtt is the estimate for all of them.
func askSixtyHosts(t *testing.T, slow, rtt time.Duration, singles int) (took time.Duration) {
	hosts := map[string]*fakeServer{}
	for i := range 60 {
		hosts[fmt.Sprintf("mx%d.a.example", i)] = &fakeServer{replyDelay: slow}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		p := b.prober
		p.gate.runnable = func() int { return 1000 }
		p.gate.procs, p.gate.limit = 2, 2*minLimit
		for range rttSamples {
			p.nodeRTT.record(rtt)
		}
		for range singles {
			p.singleCalls.record(time.Now())
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

// TestHighLatencyHostsHoldNoAdmission: a session that waits for a reply is outside the gate. If it stayed inside, four at a
// time, each for half a second of round trips, sixty would take more than seven.
func TestHighLatencyHostsHoldNoAdmission(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Less(t, askSixtyHosts(t, slow, slow, 0), 2*time.Second)
}

// TestLowLatencyHostsKeepTheirAdmission: sixty at four at a time are fifteen times a banner, a greeting and a transaction.
func TestLowLatencyHostsKeepTheirAdmission(t *testing.T) {
	const slow = highRTT - time.Millisecond
	require.Greater(t, askSixtyHosts(t, slow, slow, 0), 15*3*slow)
}

// TestHighLatencyHostsKeepTheirAdmissionUnderLoad: otherwise single calls would wait for the sessions that reenter.
func TestHighLatencyHostsKeepTheirAdmissionUnderLoad(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Greater(t, askSixtyHosts(t, slow, slow, 100*press.Least), askSixtyHosts(t, slow, slow, 0))
}

// TestBusyProcessorDoesNotRaiseTheRTTEstimate records round trips that are late, but for a few.
func TestBusyProcessorDoesNotRaiseTheRTTEstimate(t *testing.T) {
	const late = 10 * highRTT
	var e rttEstimate
	record := func(took time.Duration, n int) {
		for range n {
			e.record(took)
		}
	}
	record(late, rttSamples-1)
	require.False(t, e.isHigh(), "too few to tell")
	record(late, 1)
	require.True(t, e.isHigh())
	for range 10 {
		record(late, rttSamples-1)
		record(highRTT-1, 1)
		require.False(t, e.isHigh(), "one was early")
		record(late, rttSamples-1)
		require.False(t, e.isHigh(), "and counts for as many more")
		record(late, 1)
		require.True(t, e.isHigh())
		record(highRTT-1, 1)
		require.False(t, e.isHigh(), "at once")
		record(late, 2*rttSamples-1)
	}
}

// TestQueueUsesTheRTTOfItsOwnHosts: if it has enough samples of them; else that of all hosts.
func TestQueueUsesTheRTTOfItsOwnHosts(t *testing.T) {
	q := &readyQueue{prober: &Prober{}}
	for range rttSamples {
		q.prober.nodeRTT.record(time.Second)
	}
	require.True(t, q.highLatency())
	for range rttSamples {
		q.recordConnect(time.Millisecond, time.Millisecond, time.Millisecond)
	}
	require.False(t, q.highLatency())
	other := &readyQueue{prober: q.prober}
	require.False(t, other.highLatency(), "somebody is near")
}

// TestRTTIsMeasuredFromOneCommand: whatever else a connection takes.
func TestRTTIsMeasuredFromOneCommand(t *testing.T) {
	const slow = 100 * time.Millisecond
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": {replyDelay: slow}}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, "ann@a.example")...)
		require.Equal(t, slow, b.prober.nodeRTT.rtt.least)
	})
}
