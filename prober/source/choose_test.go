package source

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func manySources(t *testing.T, n int) Set {
	var ids []Identity
	for i := range n {
		ids = append(ids, Identity{Local: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
			EHLO: fmt.Sprintf("mx%d.us.example", i+1)})
	}
	all, err := New(ids, "")
	require.NoError(t, err)
	return all
}

// TestChoiceOfSourceIsStable: a release must not move the keys of narrow and wide providers to other sources.
func TestChoiceOfSourceIsStable(t *testing.T) {
	all, got := manySources(t, 4), map[string]string{}
	for _, host := range []string{"mx.example.org", "mx1.example.net", "smtp-in.orange.fr", "aspmx.l.google.com",
		"mx00.gmx.net"} {
		route := engine.DefaultTable().NewRoute([]engine.MX{{Host: host}})
		for _, address := range []string{"ann@example.org", "bob@example.net", "ann@gmail.com", "bob@gmail.com",
			"ann@web.de"} {
			a, err := engine.Parse(address)
			require.NoError(t, err)
			got[host] += all.Choose(&route, a, "", time.Now()).Name[8:] + " "
		}
	}
	require.Equal(t, map[string]string{
		"mx.example.org": "3 3 3 3 3 ", "mx1.example.net": "3 3 3 3 3 ", "smtp-in.orange.fr": "2 1 4 4 2 ",
		"aspmx.l.google.com": "2 1 2 3 2 ", "mx00.gmx.net": "2 1 4 4 2 ",
	}, got)
}

// TestTenantHasOneSource: a domain of a provider with tenants has one source, which is not passed over while it is
// quarantined; the domains have different ones, of which there are no more than fleet_sources.
func TestTenantHasOneSource(t *testing.T) {
	all, now := manySources(t, 8), time.Now()
	for most, want := range map[int]int{0: 8, 1: 1, 3: 3, 20: 8} {
		route, seen := &engine.Route{Key: "gate", Provider: &engine.Provider{ID: "gate", Kind: engine.KindTenants,
			FleetSources: most}}, map[string]int{}
		for i := range 800 {
			ann, err := engine.Parse(fmt.Sprintf("ann@d%d.example", i))
			require.NoError(t, err)
			bob, err := engine.Parse(fmt.Sprintf("bob@d%d.example", i))
			require.NoError(t, err)
			src := all.Choose(route, ann, "", now)
			src.QuarantineAt("gate", now.Add(time.Hour))
			require.Same(t, src, all.Choose(route, bob, "", now), "no other source asks while it rests there")
			require.False(t, all.OtherAvailable(route.Provider, src, now))
			seen[src.Name]++
		}
		require.Len(t, seen, want)
		for name, n := range seen {
			require.InDelta(t, 800/want, n, 75, name)
		}
	}
}

func twoSources(t *testing.T) Set {
	all, err := New([]Identity{{Local: netip.MustParseAddr("192.0.2.1"), EHLO: "a.us.example"},
		{Local: netip.MustParseAddr("192.0.2.2"), EHLO: "b.us.example"}}, "")
	require.NoError(t, err)
	return all
}

// TestWideProviderSkipsQuarantinedSources: a source that is quarantined at a wide provider is skipped there and nowhere
// else. If all are, the first choice is asked and gives its own answer.
func TestWideProviderSkipsQuarantinedSources(t *testing.T) {
	now := time.Now()
	all := twoSources(t)
	wide, narrow := &engine.Route{Key: "w", Provider: &engine.Provider{ID: "w", Kind: engine.KindWide}},
		&engine.Route{Key: "n", Provider: &engine.Provider{ID: "n"}}
	a, err := engine.Parse("ann@x.example")
	require.NoError(t, err)
	first := all.Choose(wide, a, "", now)
	first.QuarantineAt("w", now.Add(time.Hour))
	second := all.Choose(wide, a, "", now)
	require.NotSame(t, first, second)
	require.Same(t, first, all.Choose(wide, a, first.Name, now), "who is pinned is asked")
	require.Same(t, all.Choose(narrow, a, "", now), all.Choose(narrow, a, "", now.Add(time.Minute)))
	require.True(t, all.OtherAvailable(wide.Provider, first, now))
	require.False(t, all.OtherAvailable(narrow.Provider, first, now), "a narrow route has one source")
	require.Same(t, first, all.Choose(wide, a, "", now.Add(time.Hour)), "its time is over")
	second.QuarantineAt("w", now.Add(time.Hour))
	require.Same(t, first, all.Choose(wide, a, "", now), "nobody is wanted: it says so itself")
	require.False(t, all.OtherAvailable(wide.Provider, first, now))
}
