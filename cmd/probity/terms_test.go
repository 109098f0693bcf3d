package main

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
	"probity/engine"
	"probity/internal/memnet"
	"probity/internal/nodeflags"
)

// TestRespectTermsIsAFlag of every command that probes, and a variable and a key of the configuration file.
func TestRespectTermsIsAFlag(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"prober"}, {"verify", "-"}, {"doctor"}} {
		_, k := newCLI(t)
		got, err := k.Parse(append(command, "--respect-terms"))
		require.NoError(t, err, command)
		var variables []string
		for _, f := range got.Flags() {
			if f.Name == "respect-terms" {
				variables = append(variables, f.Envs...)
			}
		}
		require.Equal(t, []string{"PROBITY_RESPECT_TERMS"}, variables, command)
	}
	for _, flags := range []nodeflags.Probing{{}, {RespectTerms: true}} {
		table, err := flags.Table()
		require.NoError(t, err)
		require.Equal(t, !flags.RespectTerms, table.Provider("outlook").Probe)
		require.True(t, table.Provider("google").Probe)
		require.Equal(t, flags.RespectTerms, table.Hash() != engine.DefaultTable().Hash())
	}
}

// TestRespectTermsSkipsTheReceiver: its addresses are UNKNOWN and it is not probed; other receivers are.
func TestRespectTermsSkipsTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := memnet.New()
		internet, err := sim.Start(ctx, world.Config{Seed: tenantsSeed, Speedup: 1, SMTPPort: 25, DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
		require.NoError(t, err)
		asked, left := internet.World.Addresses("postfix", 5), internet.World.Addresses("outlook", 5)
		list := "email\n" + strings.Join(append(asked, left...), "\n") + "\n"
		n := memNodeOf(t, network, internet.DNS, manyIdentities(1))
		table, err := (&nodeflags.Probing{RespectTerms: true}).Table()
		require.NoError(t, err)
		n.Resolver.SetTable(table)
		n.Coordinator.SetTable(table)
		n.Prober.SetTable(table)
		var result bytes.Buffer
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			job, _ := verifyInVirtualHours(t, ctx, n, []byte(list))
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
