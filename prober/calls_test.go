package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// TestSinglesThatNobodyIsAskedForPress: a coordinator in the same process counts them, and each single once. No budget is kept
// for what nobody is asked for.
func TestSinglesThatNobodyIsAskedForPress(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var meter press.Meter
	c := calls{shared: &meter}
	require.False(t, c.pressing(now))
	for range press.Least - 1 {
		meter.Called(now)
	}
	c.called(now)
	require.False(t, c.pressing(now), "the last was counted before it came here")
	meter.Called(now)
	require.True(t, c.pressing(now))
	require.True(t, c.come(now))
	require.False(t, (&calls{shared: &meter}).come(now))
}
