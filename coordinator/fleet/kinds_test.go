package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

// TestOwnersByKindAreStable: a release that moved the keys of narrow and wide providers would probe every receiver from
// another source, and retry pinned rows from a source that is new to them.
func TestOwnersByKindAreStable(t *testing.T) {
	names := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}
	r := newMembership(viewOf(true, names...), membersOf(names...), nil, testNow)
	got := map[string]string{}
	for _, host := range []string{"mx.example.org", "mx1.example.net", "smtp-in.orange.fr", "aspmx.l.google.com",
		"mx00.gmx.net"} {
		for _, address := range []string{"ann@example.org", "bob@example.net", "ann@gmail.com", "bob@gmail.com",
			"ann@web.de"} {
			route := routeTo(host)
			k, narrow := keyOf(route, addressAt(t, address))
			got[host] += fmt.Sprint(narrow)[:1] + r.ownerOf(k, narrow, route.Provider, "", testNow).identity[8:] + " "
		}
	}
	require.Equal(t, map[string]string{
		"mx.example.org": "t1 t1 t1 t1 t1 ", "mx1.example.net": "t4 t4 t4 t4 t4 ",
		"smtp-in.orange.fr":  "f2 f2 f3 f3 f3 ",
		"aspmx.l.google.com": "f2 f2 f2 f1 f3 ", "mx00.gmx.net": "f2 f2 f3 f3 f3 ",
	}, got)
}

// tenantsRoute is a route to a provider with tenants, with its fleet_sources.
func tenantsRoute(t require.TestingT, fleetSources int) *engine.Route {
	table, err := engine.ParseTable(fmt.Appendf(nil,
		"[[provider]]\nid = \"gate\"\nname = \"Gate\"\nmx = [\".gate.example\"]\ntenants = true\nfleet_sources = %d\n",
		fleetSources))
	require.NoError(t, err)
	r := table.NewRoute([]engine.MX{{Host: "in.gate.example"}})
	return &r
}

// TestTenantsStayAtOneSource: each domain has one source, pinned or not, and waits while it is absent or changes, as a
// narrow route does; different domains have different sources.
func TestTenantsStayAtOneSource(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	route, members := tenantsRoute(t, 0), membersOf(names...)
	r := newMembership(viewOf(true, names...), members, nil, testNow)
	fewer := newMembership(viewOf(true, names[:3]...), members, r, testNow)
	unreached := newMembership(viewOf(false, names...), members, nil, testNow)
	seen := map[string]int{}
	for i := range 400 {
		domain := fmt.Sprintf("d%d.example", i)
		k, narrow := keyOf(route, addressAt(t, "ann@"+domain))
		other, _ := keyOf(route, addressAt(t, "bob@"+domain))
		require.True(t, narrow)
		require.Equal(t, k, other)
		is := r.ownerOf(k, narrow, route.Provider, "", testNow)
		seen[is.identity]++
		require.True(t, is.ready())
		for _, pinned := range names {
			require.Equal(t, is.identity, r.ownerOf(k, narrow, route.Provider, pinned, testNow).identity)
		}
		require.Equal(t, is.identity, unreached.ownerOf(k, narrow, route.Provider, "", testNow).identity)
		single := unreached.ownerForSingle(k, narrow, route.Provider, nil, testNow)
		require.False(t, single.ready(), "no other source answers for it")
		after := fewer.ownerOf(k, narrow, route.Provider, "", testNow)
		require.Equal(t, is.identity != "d", after.identity == is.identity,
			"only the domains of the source that left move")
		require.Equal(t, is.identity != "d", after.ready(), "and rest until it has closed its connections")
		underWay := &part{keys: []narrowKey{{k, route, is.identity}}}
		require.Equal(t, is.identity == "d", underWay.ownerChanged(fewer), "what is under way comes back")
	}
	require.Len(t, seen, 4)
	for name, n := range seen {
		require.InDelta(t, 100, n, 5*8.7, name) // five standard deviations
	}
}

// TestFleetSourcesLimitsSources: however many sources come and go, no more than fleet_sources probe a provider at one
// time.
func TestFleetSourcesLimitsSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(1, 12).Draw(t, "sources"), rapid.IntRange(1, 5).Draw(t, "fleet_sources")
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("192.0.2.%d", i))
		}
		route := tenantsRoute(t, most)
		r := newMembership(viewOf(true, names...), membersOf(names...), nil, testNow)
		asked := map[string]bool{}
		for i := range 200 {
			k, narrow := keyOf(route, addressAt(t, fmt.Sprintf("ann@d%d.example", i)))
			asked[r.ownerOf(k, narrow, route.Provider, "", testNow).identity] = true
		}
		require.Len(t, asked, min(n, most))
	})
}
