package fleet_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/coordinator/fleet"
	"probity/internal/detector"
	"probity/tests/harness"
)

// TestFleetAvoidsListedSources has one source blocklisted at a provider and another one everywhere, while jobs run one
// after the other. The provider's rows are probed from the other sources, each with its own budget; rows of routes that
// a blocklisted source owns are UNKNOWN; operators see it; and a trial connection ends the quarantine when the source
// is delisted.
func TestFleetAvoidsListedSources(t *testing.T) {
	detector.Spare(t)
	const speedup = fleetSpeedup / 4 // a trial connection is made every four minutes
	withMemCluster(t, speedup, 2, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		atGoogle, everywhere := probers[0].ids[0].Local, probers[1].ids[1].Local
		blocked, unknown, next := map[string]int{}, 0, f.chunks(24_000, 400)
		verify := func() {
			list := next()
			_, result := f.coord.waitResult(ctx, t, f.coord.accept(ctx, t, list))
			s := scoreOf(t, f.internet.World, list, result)
			require.Zero(t, s.FalseValid+s.FalseInvalid)
			unknown += s.UnexpectedUnknown
			for provider, n := range blockedBy(t, result) {
				blocked[provider] += n
			}
		}
		f.internet.Blocklist(atGoogle, "google")
		verify()
		require.NotZero(t, f.identity(atGoogle).Quarantined, "a lane of it rests")
		require.Equal(t, "ok", f.identity(atGoogle).State, "it rests at one receiver only")

		f.internet.Blocklist(everywhere, "")
		for tries := 0; f.identity(everywhere).State != "quarantined"; tries++ {
			require.Less(t, tries, 5, "nobody is alerted")
			verify()
		}
		before, began := probers[1].dialsFrom(everywhere), time.Now()
		verify() // its rows are returned at once: trial connections need no rows
		time.Sleep(time.Until(began.Add(5 * time.Minute)))
		require.Positive(t, probers[1].dialsFrom(everywhere)-before, "no canary")
		for time.Since(began) < 9*time.Minute {
			verify()
		}
		tried := probers[1].dialsFrom(everywhere) - before
		t.Logf("%d canaries in %v", tried, time.Since(began))
		require.LessOrEqual(t, tried, 1+int(time.Since(began)/(4*time.Minute)), "canaries, and nothing else")

		f.internet.Unblock(everywhere)
		delistedAt := time.Now()
		for ; f.identity(everywhere).State != "ok"; verify() {
			require.Less(t, time.Since(delistedAt), 9*time.Minute, "the canary does not bring it back")
		}
		t.Logf("back after %v", time.Since(delistedAt))
		harness.RequireWithinLimits(t, f.internet.Referee.Report())
		t.Logf("%d canaries; %d UNKNOWN beyond the truth; blocked by provider: %v", tried, unknown, blocked)
		require.Less(t, blocked["Google"], 20, "the other sources have budgets of their own")

		for _, node := range probers {
			for _, one := range node.ids {
				f.internet.Blocklist(one.Local, "google")
			}
		}
		clear(blocked)
		verify()
		require.Greater(t, blocked["Google"], 50, "nobody may ask")
	})
}

// chunks splits a list into shorter lists.
func (f *memCluster) chunks(rows, each int) (next func() []byte) {
	all, err := csv.NewReader(bytes.NewReader(f.list(rows, nil))).ReadAll()
	require.NoError(f.t, err)
	header, left := all[0], all[1:]
	return func() []byte {
		require.GreaterOrEqual(f.t, len(left), each, "no rows are left")
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		require.NoError(f.t, w.Write(header))
		require.NoError(f.t, w.WriteAll(left[:each]))
		left = left[each:]
		return out.Bytes()
	}
}

func (s *memProber) dialsFrom(source netip.Addr) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials[source]
}

// identity is the cluster's report of a source.
func (f *memCluster) identity(local netip.Addr) fleet.IdentityReport {
	for _, n := range f.coord.fleet.Report().Nodes {
		for _, id := range n.Identities {
			if id.Name == local.String() {
				return id
			}
		}
	}
	return fleet.IdentityReport{}
}

func scoreOf(t *testing.T, w *world.World, list, result []byte) score.Scores {
	var truth bytes.Buffer
	require.NoError(t, score.WriteTruth(&truth, w, bytes.NewReader(list)))
	s, err := score.Compare(&truth, bytes.NewReader(result))
	require.NoError(t, err)
	return s
}

// blockedBy counts the rows that are UNKNOWN for a block, by provider.
func blockedBy(t *testing.T, result []byte) map[string]int {
	rows, err := csv.NewReader(bytes.NewReader(result)).ReadAll()
	require.NoError(t, err)
	provider, reason := slices.Index(rows[0], "verify_smtp_provider"), slices.Index(rows[0], "verify_reason")
	by := map[string]int{}
	for _, r := range rows[1:] {
		if r[reason] == "blocked" {
			by[r[provider]]++
		}
	}
	return by
}
