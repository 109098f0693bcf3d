package rtt

import (
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
		var l Latency
		if c.setup > 0 {
			l.RecordConnect(2*c.setup, c.setup, c.setup)
			l.RecordConnect(c.setup, c.setup, c.setup)
			l.RecordConnect(3*c.setup, c.setup, c.setup)
		}
		l.RecordTransaction(c.transaction, c.recipients)
		require.Equal(t, c.worth, l.WorthConnection(near), what)
		require.Equal(t, c.cap, l.ConnectionCap(limit, all, 1), what)
		if l.IsHigh() {
			require.Equal(t, all/highLatencyShare, l.ConnectionCap(limit, all, 0), what+": a host's first")
		}
	}
}

// TestBusyProcessorDoesNotLengthenTheSetupEstimate: a queue's first connections make their handshakes all at once.
func TestBusyProcessorDoesNotLengthenTheSetupEstimate(t *testing.T) {
	const trip = 50 * time.Millisecond
	var l Latency
	l.RecordConnect(2*time.Second, 300*time.Millisecond, 2*trip)
	require.Equal(t, 800*time.Millisecond, l.setup)
	l.RecordConnect(time.Second, 2*trip, trip)
	require.Equal(t, 350*time.Millisecond, l.setup)
	l.RecordConnect(6*trip, 2*trip, 2*trip)
	require.Equal(t, 6*trip, l.setup, "took no longer")
	l = Latency{}
	l.RecordConnect(20*time.Second, 19*time.Second, trip)
	require.Equal(t, 19*time.Second+5*trip, l.setup, "one who lets wait for the banner")
}

// TestFirstTransactionOfAHighLatencyHostIsSmall: without PIPELINING each recipient is a round trip.
func TestFirstTransactionOfAHighLatencyHostIsSmall(t *testing.T) {
	const most = 100
	l := Latency{setup: highSetupTime - 1}
	require.Equal(t, most, l.TransactionLimit(most), "near")
	l.setup = highSetupTime
	require.Equal(t, firstTransaction, l.TransactionLimit(most), "far")
	l.RecordTransaction(time.Millisecond, 10)
	require.Equal(t, most, l.TransactionLimit(most), "known to be quick")
}

func TestLatencyFollowsTheTimePerRecipient(t *testing.T) {
	var l Latency
	for range 100 {
		l.RecordTransaction(50*time.Millisecond, 1)
	}
	for range 100 {
		l.RecordTransaction(50*time.Millisecond, 50)
	}
	require.InDelta(t, time.Millisecond, l.perRecipient, float64(100*time.Microsecond))
}
