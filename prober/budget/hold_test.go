package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHold: a pause is never shortened; a back-off doubles until a recipient was answered; no connection is opened
// while nothing may be sent.
func TestHold(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var h Hold
	require.Zero(t, h.ConnectAllowedAt())
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		h.BackOff(time.Second, 5*time.Second, now)
		require.Equal(t, now.Add(want*time.Second), h.ConnectAllowedAt())
	}
	h.Answered()
	h.BackOff(time.Second, 5*time.Second, now)
	require.Equal(t, now.Add(time.Second), h.ConnectAllowedAt())
	h.Pause(now.Add(time.Minute))
	h.Pause(now.Add(time.Second))
	require.Equal(t, now.Add(time.Minute), h.SendAt)
	require.Equal(t, now.Add(time.Minute), h.ConnectAllowedAt())
}
