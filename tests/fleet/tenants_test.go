package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/tests/harness"
)

// TestTenantsOfAFleetHaveOneSource verifies a list behind two gateways with four nodes, and loses one of them
// meanwhile: the domains of its two sources get other sources, no domain has two at one time, and all other domains
// keep theirs.
func TestTenantsOfAFleetHaveOneSource(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, 1, 4, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		world := f.internet.World
		list := []byte("email\n" + strings.Join(append(world.Addresses("proofpoint", 1500),
			world.Addresses("barracuda", 1500)...), "\n") + "\n")
		id := f.coord.accept(ctx, t, list)
		time.Sleep(30 * time.Minute)
		before := f.internet.Referee.Report()
		require.Zero(t, harness.RequireRoutes(t, before), "while the sources stay, each domain has one")
		for _, gateway := range []string{"proofpoint", "barracuda"} {
			require.Len(t, harness.SourcesOf(before)[gateway], 8, "%s is asked from all", gateway)
		}
		probers[3].kill()
		time.Sleep(time.Hour)
		probers[3].start()
		f.requireCorrectEnd(ctx, id, list)
		after := f.internet.Referee.Report()
		domains := 0
		for _, u := range after.Routes {
			domains += u.Routes
		}
		moved := harness.RequireRoutes(t, after)
		require.NotZero(t, moved)
		require.Less(t, moved, domains/2, "of four nodes one was lost")
	})
}
