package node_test

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator/results"
	"probity/internal/memnet"
	"probity/internal/nodeflags"
	"probity/tests/harness"
)

// TestRespectTermsSkipsTheReceiver: its addresses are UNKNOWN and it is not probed; other receivers are.
func TestRespectTermsSkipsTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := memnet.New()
		internet, err := sim.Start(ctx, world.Config{Seed: tenantsSeed, Speedup: 1, SMTPPort: 25,
			DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
		require.NoError(t, err)
		asked, left := internet.World.Addresses("postfix", 5), internet.World.Addresses("outlook", 5)
		list := "email\n" + strings.Join(append(asked, left...), "\n") + "\n"
		n := harness.NodeOf(t, network, internet.DNS, harness.ManyIdentities(1))
		table, err := (&nodeflags.Probing{RespectTerms: true}).Table()
		require.NoError(t, err)
		n.Resolver.SetTable(table)
		n.Coordinator.SetTable(table)
		n.Prober.SetTable(table)
		var result bytes.Buffer
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			job, _ := verifyInVirtualHours(ctx, t, n, []byte(list))
			return n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result)
		}))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
		require.Equal(t, len(left), strings.Count(result.String(), ",smtp_not_checked,"), result.String())
		seen := map[string]bool{}
		for _, w := range internet.Referee.Usage() {
			seen[w.Persona] = true
		}
		require.Equal(t, map[string]bool{"postfix": true}, seen)
	})
}
