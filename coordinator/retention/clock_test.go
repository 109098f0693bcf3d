package retention

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNothingExpiresAfterAClockStep(t *testing.T) {
	now := time.Now()
	for by, want := range map[time.Duration]time.Duration{
		0: shortDistrust, 2 * time.Hour: shortDistrust, -3 * time.Hour: longDistrust, 8 * 24 * time.Hour: longDistrust,
	} {
		var k Clock
		k.adjust(now, by)
		require.Equal(t, now.Add(want), k.NotBefore(now.Add(-time.Hour)), "%s", by)
		require.Equal(t, now.Add(48*time.Hour), k.NotBefore(now.Add(48*time.Hour)))
	}
	require.Equal(t, -3*time.Hour, clockStep(-3*time.Hour+time.Minute, time.Minute))
	require.Zero(t, clockStep(time.Minute, 61*time.Second))
}
