package source

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store/cache"
)

func TestNewSourceDoublesDaily(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	src := &Source{firstUsed: now}
	limits := engine.Limits{Connections: 5, RefusalsPerHour: 200, RefusalsPerConnection: 10}
	for day, want := range []int{20, 40, 80, 160, 200, 200} {
		got := src.WarmUpLimits(limits, now.Add(time.Duration(day)*24*time.Hour+time.Hour))
		require.Equal(t, want, got.RefusalsPerHour, "day %d", day)
		require.GreaterOrEqual(t, got.Connections, 1)
		require.Equal(t, 10, got.RefusalsPerConnection, "what one connection may do is not a matter of age")
	}
	require.Equal(t, limits, (&Source{}).WarmUpLimits(limits, now))
}

func TestFirstUseSurvivesRestart(t *testing.T) {
	fs, now := vfs.NewMem(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for restart := range 3 {
		c, err := cache.Open(cache.Config{FS: fs, Dir: "cache", FilterBytes: 1 << 16})
		require.NoError(t, err)
		since, err := loadFirstUse(c, "192.0.2.1", now.Add(time.Duration(restart)*24*time.Hour))
		require.NoError(t, err)
		require.True(t, since.Equal(now), "%s", since)
		require.NoError(t, c.Close())
	}
}

func TestOnlyPublicAddressesWarmUp(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": false, "10.1.2.3": false, "8.8.8.8": true} {
		require.Equal(t, want, Identity{Local: netip.MustParseAddr(address)}.mayBePublic(), address)
	}
	require.True(t, Identity{}.mayBePublic(), "nobody knows what the system chooses")
	require.True(t, Identity{Local: netip.MustParseAddr("10.1.2.3"),
		Public: netip.MustParseAddr("8.8.8.8")}.mayBePublic())
}
