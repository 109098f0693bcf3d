package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
	"probity/internal/detector"
	"probity/tests/harness"
)

// scaleRows is the work of each source: 38.5 minutes at the shipped budget of 300 recipients a minute. A minute's
// budget is used in a burst, so that a share with a few more rows takes a minute longer, which is little of the whole.
const scaleRows = 11_550

// TestThroughputIsLinearInIdentities gives each source the same work at one wide provider, at speed-up 1, so that only
// budgets limit the rate: with more sources it takes the same time.
func TestThroughputIsLinearInIdentities(t *testing.T) {
	detector.Spare(t)
	throughput := map[int]float64{}
	for _, shape := range []struct{ nodes, identities int }{{1, 1}, {1, 2}, {2, 2}, {4, 2}} {
		n := shape.nodes * shape.identities
		withMemCluster(t, 1, shape.nodes, shape.identities, func(ctx context.Context, f *memCluster, _ []*memProber) {
			left := n * scaleRows
			list := f.list(16*n*scaleRows, func(email string) bool {
				local, domain, _ := strings.Cut(email, "@")
				if left == 0 || domain != "gmail.com" || f.internet.World.Mailbox(domain, local) != persona.Present {
					return false
				}
				left--
				return true
			})
			require.Zero(t, left, "the drawn list is too short")
			began := time.Now()
			job, _ := f.coord.waitResult(ctx, t, f.coord.accept(ctx, t, list))
			throughput[n] = float64(job.Unique) / time.Since(began).Seconds()
			harness.RequireWithinLimits(t, f.internet.Referee.Report())
			f.requireOwners(n, "google")
		})
		t.Logf("%d identities: %.2f rows/s, %.3f of linear", n, throughput[n], throughput[n]/throughput[1]/float64(n))
	}
	for n, rate := range throughput {
		require.GreaterOrEqual(t, rate, 0.95*throughput[1]*float64(n), "%d identities", n)
	}
}
