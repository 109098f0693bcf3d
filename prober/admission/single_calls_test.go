package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// TestSinglesThatNeedNoNodeCountAsLoad: a coordinator in the same process counts them, and each single call once. No
// budget is reserved for calls that need no node.
func TestSinglesThatNeedNoNodeCountAsLoad(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var meter press.Meter
	c := SingleCalls{Shared: &meter}
	require.False(t, c.UnderLoad(now))
	for range press.Least - 1 {
		meter.Called(now)
	}
	c.Record(now)
	require.False(t, c.UnderLoad(now), "the last was counted before it came here")
	meter.Called(now)
	require.True(t, c.UnderLoad(now))
	require.True(t, c.Expected(now))
	require.False(t, (&SingleCalls{Shared: &meter}).Expected(now))
}
