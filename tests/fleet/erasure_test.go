package fleet_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

// TestErasureReachesTheCachesOfAllNodes erases addresses from the caches of nodes: of an attached node at once, of an
// absent node when it is back, also after a restart of the coordinator.
func TestErasureReachesTheCachesOfAllNodes(t *testing.T) {
	withMemCluster(t, fleetSpeedup, 2, 1, func(ctx context.Context, f *memCluster, probers []*memProber) {
		of := map[string][]engine.Address{} // by node
		for _, text := range f.internet.World.Addresses("google", 40) {
			ask, cancel := context.WithTimeout(ctx, 30*time.Second)
			answer, err := f.coord.coordinator.Single(ask, coordinator.Request{Email: text, MaxAge: time.Hour})
			cancel()
			require.NoError(t, err)
			if a, err := engine.Parse(text); err == nil && answer.Verdict.Status == engine.Valid {
				of[answer.Node] = append(of[answer.Node], a)
			}
		}
		require.NotEmpty(t, of["p1"])
		require.Greater(t, len(of["p2"]), 1)
		cached := func(s *memProber, a engine.Address) bool {
			_,
				is := s.cache.Get(s.cache.Key(a), time.Now())
			return is
		}

		erase := func(a engine.Address) store.Erasure {
			e, err := f.coord.eraser.Erase(ctx, a, "root", time.Now())
			require.NoError(t, err)
			return e
		}
		time.Sleep(10 * time.Second) // a restarted coordinator does not know its nodes yet
		e := erase(of["p1"][0])
		require.False(t, e.Open(), e.Fault)
		verdicts := map[string]int64{}
		for _, c := range e.Caches {
			verdicts[c.Node] = c.Verdicts
		}
		require.Equal(t, map[string]int64{"p1": 1, "p2": 0}, verdicts)
		require.False(t, cached(probers[0], of["p1"][0]))

		gone := of["p2"][0]
		require.True(t, cached(probers[1], gone))
		probers[1].kill()
		e = erase(gone)
		require.True(t, e.Open())
		require.True(t, slices.ContainsFunc(e.Caches,
			func(c store.ErasedCache) bool { return c.Node == "p2" && c.Done.IsZero() }))
		f.killCoordinator()
		f.coord = f.restartCoordinator(coordinatorIP, "hub", f.coord)
		early := erase(of["p1"][1])
		require.True(t, early.Open(), "who is there is not known yet")
		require.Contains(t, early.Fault, "does not know its nodes yet")
		probers[1].start()
		f.waitUsable(2)
		time.Sleep(10 * time.Second)
		require.False(t, cached(probers[1], gone), "it was away, and is back")
		e, err := f.coord.store.Erasure(e.ID)
		require.NoError(t, err)
		require.False(t, e.Open(), e.Fault)
		time.Sleep(time.Minute)
		require.False(t, cached(probers[0], of["p1"][1]))
		early, err = f.coord.store.Erasure(early.ID)
		require.NoError(t, err)
		require.False(t, early.Open(), early.Fault)
		require.True(t, cached(probers[1], of["p2"][1]))
	})
}
