package rtt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHostsOfAQueueHaveTheirOwnRTT: once there are enough samples of them; until then that of all hosts holds.
func TestHostsOfAQueueHaveTheirOwnRTT(t *testing.T) {
	var all Shared
	for range 1000 { // more than the estimate needs
		all.Record(time.Second)
	}
	var near, unknown Hosts
	require.True(t, near.HighRTT(&all))
	for range 1000 {
		near.RecordConnect(time.Millisecond, time.Millisecond, time.Millisecond)
	}
	require.False(t, near.HighRTT(&all))
	require.True(t, unknown.HighRTT(&all))
}
