package app

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/coordinator/fleet"
	"probity/prober/wire"
)

// TestQuarantinedSourceIsAnAlert: the alert's metric stays 1 while a source is quarantined, trial connections included.
func TestQuarantinedSourceIsAnAlert(t *testing.T) {
	for state, quarantined := range map[string]float64{"ok": 0, wire.StateQuarantined: 1, wire.StateTrial: 1, "sick": 0} {
		hm := &healthMetrics{disk: vfs.NewMem(), report: func() fleet.ClusterReport {
			return fleet.ClusterReport{Nodes: []fleet.NodeReport{{Name: "p1", Identities: []fleet.IdentityReport{{Name: "a", State: state}}}}}
		}}
		registry := prometheus.NewRegistry()
		require.NoError(t, registry.Register(hm))
		families, err := registry.Gather()
		require.NoError(t, err)
		found := -1.0
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					if family.GetName() == "probity_identities" && l.GetName() == "state" && l.GetValue() == "resting" {
						found = m.GetGauge().GetValue()
					}
				}
			}
		}
		require.Equal(t, quarantined, found, state)
	}
}
