package prober

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func newTestSources(t *testing.T, n int) sourceSet {
	var ids []Source
	for i := range n {
		ids = append(ids, Source{Local: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), EHLO: fmt.Sprintf("mx%d.us.example", i+1)})
	}
	all, err := newSourceSet(ids, "")
	require.NoError(t, err)
	return all
}

// TestChoiceOfSourceIsStable: a release must not move the keys of narrow and wide providers to other sources.
func TestChoiceOfSourceIsStable(t *testing.T) {
	all, got := newTestSources(t, 4), map[string]string{}
	for _, host := range []string{"mx.example.org", "mx1.example.net", "smtp-in.orange.fr", "aspmx.l.google.com", "mx00.gmx.net"} {
		route := engine.DefaultTable().NewRoute([]engine.MX{{Host: host}})
		for _, address := range []string{"ann@example.org", "bob@example.net", "ann@gmail.com", "bob@gmail.com", "ann@web.de"} {
			a, err := engine.Parse(address)
			require.NoError(t, err)
			got[host] += all.choose(&route, a, "", time.Now()).name[8:] + " "
		}
	}
	require.Equal(t, map[string]string{
		"mx.example.org": "3 3 3 3 3 ", "mx1.example.net": "3 3 3 3 3 ", "smtp-in.orange.fr": "3 3 3 3 3 ",
		"aspmx.l.google.com": "2 1 2 3 2 ", "mx00.gmx.net": "2 1 4 4 2 ",
	}, got)
}

// TestTenantHasOneSource: a domain of a provider with tenants has one source, which is not passed over while it is quarantined; the
// domains have different ones, of which there are no more than fleet_sources.
func TestTenantHasOneSource(t *testing.T) {
	all, now := newTestSources(t, 8), time.Now()
	for most, want := range map[int]int{0: 8, 1: 1, 3: 3, 20: 8} {
		route, seen := &engine.Route{Key: "gate", Provider: &engine.Provider{ID: "gate", Kind: engine.KindTenants, FleetSources: most}}, map[string]int{}
		for i := range 800 {
			ann, err := engine.Parse(fmt.Sprintf("ann@d%d.example", i))
			require.NoError(t, err)
			bob, err := engine.Parse(fmt.Sprintf("bob@d%d.example", i))
			require.NoError(t, err)
			src := all.choose(route, ann, "", now)
			src.quarantineAt("gate", now.Add(time.Hour))
			require.Same(t, src, all.choose(route, bob, "", now), "no other source asks while it rests there")
			require.False(t, all.otherAvailable(route.Provider, src, now))
			seen[src.name]++
		}
		require.Len(t, seen, want)
		for name, n := range seen {
			require.InDelta(t, 800/want, n, 75, name)
		}
	}
}

// TestWindowOfTenants: the window of a class covers the budgets of all sources that ask it.
func TestWindowOfTenants(t *testing.T) {
	for fleet, want := range map[int]int{0: 4, 2: 2} {
		table, err := engine.DefaultTable().Override(fmt.Appendf(nil, "[[provider]]\nid = \"gate\"\nname = \"Gate\"\nmx = [\".gate.example\"]\ntenants = true\nfleet_sources = %d\n"+
			"[provider.limits]\nrecipients_per_minute = 200\nrefusals_per_hour = 0\n", fleet))
		require.NoError(t, err)
		p := &Prober{sources: newTestSources(t, 4)}
		p.table.Store(table)
		require.Equal(t, 200*want, p.Window("gate"))
		require.Equal(t, 200, p.Window("gate@192.0.2.1#job"), "one source's part")
	}
}
