package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/report"
	"probity/bench/sim/referee"
)

func TestSelect(t *testing.T) {
	all, err := Select(nil)
	require.NoError(t, err)
	require.Len(t, all, len(Scenarios()))
	some, err := Select([]string{"dns", "verify"})
	require.NoError(t, err)
	require.Equal(t, "dns", some[0].Name)
	require.Equal(t, "verify", some[1].Name)
	_, err = Select([]string{"coffee"})
	require.ErrorIs(t, err, errUnknownScenario)
	var b bytes.Buffer
	require.NoError(t, PrintScenarios(&b, all))
	for _, s := range all {
		require.NotEmpty(t, s.Bars)
		require.Positive(t, s.Rows)
		require.Contains(t, b.String(), s.Name+"\n")
	}
}

func TestBudgetsShowTheHighestUse(t *testing.T) {
	all := budgets(referee.Report{Peaks: []referee.Entry{
		{Persona: "google", Source: "a", Kind: "connections", Seen: 3, Limit: 5},
		{Persona: "google", Source: "b", Kind: "connections", Seen: 4, Limit: 5},
		{Persona: "yahoo", Source: "a", Kind: "connections", Seen: 1, Limit: 5},
	}})
	require.Equal(t, []report.Budget{{Persona: "google", Kind: "connections", Seen: 4, Limit: 5},
		{Persona: "yahoo", Kind: "connections", Seen: 1, Limit: 5}}, all)
}
