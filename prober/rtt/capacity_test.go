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
		var d Latency
		if c.setup > 0 {
			d.RecordConnect(2*c.setup, c.setup, c.setup)
			d.RecordConnect(c.setup, c.setup, c.setup)
			d.RecordConnect(3*c.setup, c.setup, c.setup)
		}
		d.RecordTransaction(c.transaction, c.recipients)
		require.Equal(t, c.worth, d.WorthConnection(near), what)
		require.Equal(t, c.cap, d.ConnectionCap(limit, all, 1), what)
		if d.IsHigh() {
			require.Equal(t, all/highLatencyShare, d.ConnectionCap(limit, all, 0), what+": a host's first")
		}
	}
}

// TestBusyProcessorDoesNotLengthenTheSetupEstimate: a queue's first connections make their handshakes all at once.
func TestBusyProcessorDoesNotLengthenTheSetupEstimate(t *testing.T) {
	const trip = 50 * time.Millisecond
	var d Latency
	d.RecordConnect(2*time.Second, 300*time.Millisecond, 2*trip)
	require.Equal(t, 800*time.Millisecond, d.setup)
	d.RecordConnect(time.Second, 2*trip, trip)
	require.Equal(t, 350*time.Millisecond, d.setup)
	d.RecordConnect(6*trip, 2*trip, 2*trip)
	require.Equal(t, 6*trip, d.setup, "took no longer")
	d = Latency{}
	d.RecordConnect(20*time.Second, 19*time.Second, trip)
	require.Equal(t, 19*time.Second+5*trip, d.setup, "one who lets wait for the banner")
}

// TestFirstTransactionOfAHighLatencyHostIsSmall: without PIPELINING each recipient is a round trip.
func TestFirstTransactionOfAHighLatencyHostIsSmall(t *testing.T) {
	const most = 100
	d := Latency{setup: highSetupTime - 1}
	require.Equal(t, most, d.TransactionLimit(most), "near")
	d.setup = highSetupTime
	require.Equal(t, firstTransaction, d.TransactionLimit(most), "far")
	d.RecordTransaction(time.Millisecond, 10)
	require.Equal(t, most, d.TransactionLimit(most), "known to be quick")
}

func TestLatencyFollowsTheTimePerRecipient(t *testing.T) {
	var d Latency
	for range 100 {
		d.RecordTransaction(50*time.Millisecond, 1)
	}
	for range 100 {
		d.RecordTransaction(50*time.Millisecond, 50)
	}
	require.InDelta(t, time.Millisecond, d.perRecipient, float64(100*time.Microsecond))
}
