package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/engine"
)

// TestFleetForgets erases addresses from the caches of nodes: of one that is there at once, of one that is away when it is back,
// be the coordinator another life by then.
func TestFleetForgets(t *testing.T) {
	inFleet(t, fleetSpeedup, 2, 1, func(ctx context.Context, f *fleetLab, spokes []*spoke) {
		of := map[string][]engine.Address{} // by node
		for _, text := range f.internet.World.Addresses("google", 40) {
			ask, cancel := context.WithTimeout(ctx, 30*time.Second)
			answer, err := f.hub.coordinator.Single(ask, coordinator.Request{Email: text, MaxAge: time.Hour})
			cancel()
			require.NoError(t, err)
			if a, err := engine.Parse(text); err == nil && answer.Verdict.Status == engine.Valid {
				of[answer.Node] = append(of[answer.Node], a)
			}
		}
		require.NotEmpty(t, of["p1"])
		require.Greater(t, len(of["p2"]), 1)
		cached := func(s *spoke, a engine.Address) bool { _, is := s.cache.Get(s.cache.Key(a), time.Now()); return is }

		n, away, err := f.hub.fleet.Forget(ctx, of["p1"][0].Folded())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Empty(t, away)
		require.False(t, cached(spokes[0], of["p1"][0]))

		gone := of["p2"][0]
		require.True(t, cached(spokes[1], gone))
		spokes[1].kill()
		_, away, err = f.hub.fleet.Forget(ctx, gone.Folded())
		require.NoError(t, err)
		require.True(t, slices.Contains(away, "p2"), away)
		f.killHub()
		f.hub = f.resumeHub(hubIP, "hub", f.hub)
		spokes[1].start()
		f.waitUsable(2)
		time.Sleep(10 * time.Second)
		require.False(t, cached(spokes[1], gone), "it was away, and is back")
		require.True(t, cached(spokes[1], of["p2"][1]))
	})
}
