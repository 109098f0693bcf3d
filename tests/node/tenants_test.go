package node_test

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator/results"
	"probity/internal/detector"
	"probity/internal/memnet"
	"probity/store"
	"probity/tests/harness"
)

const (
	tenantsRows    = 2_000 // in the suite; PROBITY_TENANTS_ROWS sets another number
	tenantsSources = 8
	tenantsSeed    = 30
)

// TestTenantsScale verifies one address of each of many domains behind two gateways from eight sources, and from one.
// Each source has its own budgets at the gateways, so eight take about an eighth of the time; the domains are not split
// quite evenly.
func TestTenantsScale(t *testing.T) {
	detector.Spare(t)
	rows := tenantsRows
	if text := os.Getenv("PROBITY_TENANTS_ROWS"); text != "" {
		var err error
		rows, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	one, many := verifyTenants(t, rows, 1), verifyTenants(t, rows, tenantsSources)
	ratio := many.Seconds() * tenantsSources / one.Seconds()
	t.Logf("%d domains: one source takes %s, %d take %s, %.3f of an eighth", rows, one.Round(time.Second),
		tenantsSources, many.Round(time.Second), ratio)
	require.LessOrEqual(t, ratio, 1.1)
}

// verifyTenants returns how long a list of tenants takes from so many sources, in virtual time.
func verifyTenants(t *testing.T, rows, sources int) (took time.Duration) {
	cpu := harness.CPUTime()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := memnet.New()
		internet, err := sim.Start(ctx, world.Config{Seed: tenantsSeed, Tenants: rows, Speedup: 1, Latency: "realistic",
			SMTPPort: 25,
			DNS:      netip.MustParseAddrPort("127.0.0.1:53")}, network)
		require.NoError(t, err)
		list := listOfTenants(internet.World)
		var job *store.Job
		var result bytes.Buffer
		n := harness.NodeOf(t, network, internet.DNS, harness.ManyIdentities(sources))
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			job, _ = verifyInVirtualHours(ctx, t, n, list)
			return n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result)
		}))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
		harness.RequireCorrect(t, internet.World, list, result.Bytes())
		report := internet.Referee.Report()
		harness.RequireWithinLimits(t, report)
		require.Len(t, report.Routes, 2, "two gateways")
		for _, u := range report.Routes {
			require.Zero(t, u.Moved, "%s: each tenant is asked from one source", u.Persona)
			require.InDelta(t, rows/2, u.Routes, float64(rows)/200, u.Persona)
			require.Len(t, harness.SourcesOf(report)[u.Persona], sources, u.Persona)
		}
		took = job.FinishedAt.Sub(job.StartedAt)
	})
	t.Logf("from %d: %s of CPU time", sources, (harness.CPUTime() - cpu).Round(time.Millisecond))
	return took
}

// listOfTenants has one address of each domain that Config.Tenants made.
func listOfTenants(w *world.World) []byte {
	var b strings.Builder
	b.WriteString("email\n")
	seen := map[string]bool{}
	for _, persona := range []string{"proofpoint", "barracuda"} {
		for _, a := range w.Addresses(persona, 2*len(w.Domains())) {
			_, domain, _ := strings.Cut(a, "@")
			if strings.HasPrefix(domain, "tenant-") && !seen[domain] {
				seen[domain] = true
				b.WriteString(a + "\n")
			}
		}
	}
	return []byte(b.String())
}
