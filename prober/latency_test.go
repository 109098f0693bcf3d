package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatencyDecidesHowManyConnectionsMayOpen(t *testing.T) {
	const near, limit, all = 200, 16, 1000
	for what, c := range map[string]struct {
		setup, transaction time.Duration
		recipients         int
		worth, cap         int
	}{
		"nothing known":             {0, 0, 0, near, limit},
		"far, nothing asked yet":    {100 * time.Millisecond, 0, 0, near, 64},
		"near":                      {time.Millisecond, time.Millisecond, 50, near, limit},
		"near, processor busy":      {40 * time.Millisecond, 30 * time.Millisecond, 1, near, limit},
		"far, pipelined":            {250 * time.Millisecond, 50 * time.Millisecond, 50, near, all / highLatencyShare},
		"far, one at a time":        {250 * time.Millisecond, 50 * time.Millisecond, 1, 10, all / highLatencyShare},
		"far, slower than set-up":   {100 * time.Millisecond, time.Second, 1, 1, 64},
		"farther than any share is": {10 * time.Second, time.Second, 1, 20, all / highLatencyShare},
	} {
		q := &readyQueue{prober: &Prober{}}
		if c.setup > 0 {
			q.recordConnect(2*c.setup, c.setup, c.setup)
			q.recordConnect(c.setup, c.setup, c.setup)
			q.recordConnect(3*c.setup, c.setup, c.setup)
		}
		q.latency.recordTransaction(c.transaction, c.recipients)
		require.Equal(t, c.worth, q.latency.worthConnection(near), what)
		require.Equal(t, c.cap, q.latency.connectionCap(limit, all, 1), what)
		if q.latency.highLatency() {
			require.Equal(t, all/highLatencyShare, q.latency.connectionCap(limit, all, 0), what+": a host's first")
		}
	}
}

// TestBusyProcessorDoesNotLengthenTheSetupEstimate: a queue's first connections make their handshakes all at once.
func TestBusyProcessorDoesNotLengthenTheSetupEstimate(t *testing.T) {
	const trip = 50 * time.Millisecond
	var d latencyEstimate
	d.recordConnect(2*time.Second, 300*time.Millisecond, 2*trip)
	require.Equal(t, 800*time.Millisecond, d.setup)
	d.recordConnect(time.Second, 2*trip, trip)
	require.Equal(t, 350*time.Millisecond, d.setup)
	d.recordConnect(6*trip, 2*trip, 2*trip)
	require.Equal(t, 6*trip, d.setup, "took no longer")
	d = latencyEstimate{}
	d.recordConnect(20*time.Second, 19*time.Second, trip)
	require.Equal(t, 19*time.Second+5*trip, d.setup, "one who lets wait for the banner")
}

// TestFirstTransactionOfAHighLatencyHostIsSmall: without PIPELINING each recipient is a round trip.
func TestFirstTransactionOfAHighLatencyHostIsSmall(t *testing.T) {
	d := latencyEstimate{setup: highSetupTime - 1}
	require.Equal(t, maxTransaction, d.transactionLimit(), "near")
	d.setup = highSetupTime
	require.Equal(t, firstTransaction, d.transactionLimit(), "far")
	d.recordTransaction(time.Millisecond, 10)
	require.Equal(t, maxTransaction, d.transactionLimit(), "known to be quick")
}

func TestLatencyFollowsTheTimePerRecipient(t *testing.T) {
	var d latencyEstimate
	for range 100 {
		d.recordTransaction(50*time.Millisecond, 1)
	}
	for range 100 {
		d.recordTransaction(50*time.Millisecond, 50)
	}
	require.InDelta(t, time.Millisecond, d.perRecipient, float64(100*time.Microsecond))
}

// TestUnsentRecipientsDoNotChangeTheLatency: UTF-8 recipients are not sent to a host without SMTPUTF8, and take no time.
func TestUnsentRecipientsDoNotChangeTheLatency(t *testing.T) {
	q := &readyQueue{latency: latencyEstimate{setup: 250 * time.Millisecond, perRecipient: 50 * time.Millisecond}}
	s := &session{queue: q, hostQueue: &hostQueue{}}
	for range 2 * transactionSamples {
		require.False(t, s.recordTiming(time.Microsecond, 0))
	}
	require.Equal(t, 50*time.Millisecond, q.latency.perRecipient)
}

// TestHighLatencyHostsGetMoreConnections asks a host that takes one recipient at a time: with low latency one connection is
// enough; with high latency one round trip each would take twenty seconds.
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
		withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = 0", 1), nil, map[string]*fakeServer{"mx.far.example": h}, func(b *testNode) {
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

// TestHostsThatCloseEarlyAreAskedOverMoreConnections: a high-latency host that closes after three recipients is asked over several
// connections if nothing limits them; one after another, each would take a set-up of its own.
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
		withTestNode(t, strings.Replace(testTable, "connections = 2", limit, 1), nil, map[string]*fakeServer{"mx.early.example": h}, func(b *testNode) {
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
