package prober

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/readyqueue"
	"probity/prober/source"
)

func newTestSources(t *testing.T, n int) source.Set {
	var ids []source.Identity
	for i := range n {
		ids = append(ids, source.Identity{Local: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
			EHLO: fmt.Sprintf("mx%d.us.example", i+1)})
	}
	all, err := source.New(ids, "")
	require.NoError(t, err)
	return all
}

// TestWindowOfTenants: the window of a class covers the budgets of all sources that ask it.
func TestWindowOfTenants(t *testing.T) {
	for fleet, want := range map[int]int{0: 4, 2: 2} {
		table, err := engine.DefaultTable().Override(fmt.Appendf(nil,
			"[[provider]]\nid = \"gate\"\nname = \"Gate\"\nmx = [\".gate.example\"]\ntenants = true\nfleet_sources = %d\n"+
				"[provider.limits]\nrecipients_per_minute = 200\nrefusals_per_hour = 0\n", fleet))
		require.NoError(t, err)
		p := &Prober{env: &readyqueue.Env{}, sources: newTestSources(t, 4)}
		p.env.Table.Store(table)
		require.Equal(t, 200*want, p.Window("gate#job"))
	}
}
