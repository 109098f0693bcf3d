package app

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/coordinator/fleet"
	"probity/internal/buildinfo"
	"probity/internal/tlsfront"
	"probity/prober/wire"
)

// TestQuarantinedSourceIsAnAlert: the alert's metric stays 1 while a source is quarantined, trial connections included.
func TestQuarantinedSourceIsAnAlert(t *testing.T) {
	for state, quarantined := range map[string]float64{"ok": 0, wire.StateQuarantined: 1, wire.StateTrial: 1,
		"down": 0} {
		hm := &healthMetrics{disk: vfs.NewMem(), report: func() fleet.ClusterReport {
			return fleet.ClusterReport{Nodes: []fleet.NodeReport{{Name: "p1",
				Identities: []fleet.IdentityReport{{Name: "a", State: state}}}}}
		}}
		families, err := registryOf(t, hm).Gather()
		require.NoError(t, err)
		found := -1.0
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					if family.GetName() == "probity_identities" && l.GetName() == "state" &&
						l.GetValue() == "quarantined" {
						found = m.GetGauge().GetValue()
					}
				}
			}
		}
		require.Equal(t, quarantined, found, state)
	}
}

// TestBuildsDifferInTheirMetric: ProbityVersionsDiffer counts these labels.
func TestBuildsDifferInTheirMetric(t *testing.T) {
	none := func() fleet.ClusterReport { return fleet.ClusterReport{} }
	for _, b := range []buildinfo.Build{{Version: "v1.2.3"},
		{Version: "v1.2.4", Commit: "ab", Date: "2026-11-27T18:15:19Z"}} {
		hm := &healthMetrics{build: b, disk: vfs.NewMem(), report: none}
		want := fmt.Sprintf(`# HELP probity_build_info 1, with what runs as labels.
# TYPE probity_build_info gauge
probity_build_info{commit=%q,date=%q,go=%q,version=%q} 1
`, b.Commit, b.Date, runtime.Version(), b.Version)
		require.NoError(t, testutil.GatherAndCompare(registryOf(t, hm), strings.NewReader(want), "probity_build_info"))
	}
}

// TestACMEFailuresHaveAMetric: with an authority its failures are counted from the start; without one there is no such
// metric.
func TestACMEFailuresHaveAMetric(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	listener, err := tlsfront.New(&tlsfront.Flags{ACMEDomain: []string{"front.test"},
		ACMEDirectory: "http://127.0.0.1:1"}, t.TempDir(), log)
	require.NoError(t, err)
	for want, l := range map[int]*tlsfront.Listener{0: nil, 1: listener} {
		hm := &healthMetrics{disk: vfs.NewMem(), tlsListener: l,
			report: func() fleet.ClusterReport { return fleet.ClusterReport{} }}
		got, err := testutil.GatherAndCount(registryOf(t, hm), "probity_acme_failures_total")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func registryOf(t *testing.T, c prometheus.Collector) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(c))
	return r
}
