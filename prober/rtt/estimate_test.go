package rtt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBusyProcessorDoesNotRaiseTheRTTEstimate records round trips that are late, but for a few.
func TestBusyProcessorDoesNotRaiseTheRTTEstimate(t *testing.T) {
	const late = 10 * highRoundTrip
	var e Estimate
	record := func(took time.Duration, n int) {
		for range n {
			e.Record(took)
		}
	}
	record(late, samples-1)
	require.False(t, e.IsHigh(), "too few to tell")
	record(late, 1)
	require.True(t, e.IsHigh())
	for range 10 {
		record(late, samples-1)
		record(highRoundTrip-1, 1)
		require.False(t, e.IsHigh(), "one was early")
		record(late, samples-1)
		require.False(t, e.IsHigh(), "and counts for as many more")
		record(late, 1)
		require.True(t, e.IsHigh())
		record(highRoundTrip-1, 1)
		require.False(t, e.IsHigh(), "at once")
		record(late, 2*samples-1)
	}
}
