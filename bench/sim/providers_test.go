package sim

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
)

type overrides struct {
	Speedup  float64  `toml:"speedup"`
	Schedule []string `toml:"retry_schedule"`
	Defaults struct {
		Limits map[string]int `toml:"limits"`
	} `toml:"defaults"`
	Provider []struct {
		ID     string         `toml:"id"`
		Limits map[string]int `toml:"limits"`
	} `toml:"provider"`
}

func readOverrides(t *testing.T, speedup float64) overrides {
	var text strings.Builder
	var o overrides
	require.NoError(t, WriteProviders(&text, speedup))
	require.NoError(t, toml.Unmarshal([]byte(text.String()), &o), text.String())
	return o
}

func TestProvidersScale(t *testing.T) {
	o := readOverrides(t, 60)
	require.Equal(t, 60.0, o.Speedup)
	require.Equal(t, []string{"1s", "5s", "15s", "1m0s"}, o.Schedule)
	require.Equal(t, 20*60, o.Defaults.Limits["refusals_per_hour"])
	for _, p := range o.Provider {
		if p.ID == "google" {
			require.Equal(t, 200*60, p.Limits["refusals_per_hour"])
		}
		require.NotContains(t, p.Limits, "connections")
	}
}

func TestProvidersWithoutLimits(t *testing.T) {
	o := readOverrides(t, 0)
	require.Zero(t, o.Speedup)
	require.Equal(t, []string{"1ms", "1ms", "1ms", "1ms"}, o.Schedule)
	for _, p := range o.Provider {
		for key, limit := range p.Limits {
			require.Equal(t, p.ID == "outlook" && key == "recipients_per_transaction", limit == 1, "%s %s", p.ID, key)
		}
	}
}

func TestProvidersStayInRange(t *testing.T) {
	for _, speedup := range []float64{0.001, 1, 3600, 1e9} {
		for _, p := range readOverrides(t, speedup).Provider {
			for key, limit := range p.Limits {
				require.True(t, 1 <= limit && limit <= maxBudget, "%s %s %d", p.ID, key, limit)
			}
		}
	}
}

// A client that keeps the budgets exceeds no persona's limit.
func TestProvidersStayWithinPersonas(t *testing.T) {
	within := func(budget, limit int) bool { return limit == 0 || budget <= limit }
	for _, p := range persona.All() {
		r, known := providerRates[p.Provider]
		require.Equal(t, p.Provider != "", known, p.Name)
		if !known {
			r = defaultRates
		}
		require.True(t, within(r.refusalsPerHour, p.Limits.RefusalsPerHour), p.Name)
		require.True(t, within(r.rcptsPerMinute, p.Limits.RcptsPerMinute), p.Name)
		require.True(t, within(r.connectionsPerMinute, p.Limits.ConnectionsPerMinute), p.Name)
	}
}
