package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDelay: a pause is never shortened; a back-off doubles until a recipient was answered; no connection is opened
// while nothing may be sent.
func TestDelay(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var d Delay
	require.Zero(t, d.ConnectAllowedAt())
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		d.BackOff(time.Second, 5*time.Second, now)
		require.Equal(t, now.Add(want*time.Second), d.ConnectAllowedAt())
	}
	d.Answered()
	d.BackOff(time.Second, 5*time.Second, now)
	require.Equal(t, now.Add(time.Second), d.ConnectAllowedAt())
	d.Pause(now.Add(time.Minute))
	d.Pause(now.Add(time.Second))
	require.Equal(t, now.Add(time.Minute), d.SendAt)
	require.Equal(t, now.Add(time.Minute), d.ConnectAllowedAt())
}
