package node_test

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/internal/app"
	"probity/internal/memnet"
	"probity/tests/harness"
)

// onInternet runs f with a node of two sources on the simulated internet, in virtual time with the shipped limits.
func onInternet(t *testing.T, f func(ctx context.Context, t *testing.T, n *app.Node, internet *sim.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network, dns := memnet.New(), netip.MustParseAddrPort("127.0.0.1:53")
		internet, err := sim.Start(ctx, world.Config{Seed: harness.ListSeed, Speedup: 1, SMTPPort: 25, DNS: dns},
			network)
		require.NoError(t, err)
		n := harness.NodeOfTwo(t, network, internet.DNS)
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			f(ctx, t, n, internet)
			return nil
		}))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
	})
}

// sampleList is a list of the simulated internet.
func sampleList(t *testing.T, internet *sim.Server) []byte {
	t.Helper()
	var list bytes.Buffer
	require.NoError(t, world.WriteList(&list, internet.World, scoredRows, harness.ListSeed))
	return list.Bytes()
}
