package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// TestSinglesThatNeedNoNodeCountAsLoad: a coordinator in the same process counts them, and each single call once. No budget is
// reserved for calls that need no node.
func TestSinglesThatNeedNoNodeCountAsLoad(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var meter press.Meter
	c := singleCalls{shared: &meter}
	require.False(t, c.underLoad(now))
	for range press.Least - 1 {
		meter.Called(now)
	}
	c.record(now)
	require.False(t, c.underLoad(now), "the last was counted before it came here")
	meter.Called(now)
	require.True(t, c.underLoad(now))
	require.True(t, c.expected(now))
	require.False(t, (&singleCalls{shared: &meter}).expected(now))
}
