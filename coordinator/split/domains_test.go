package split

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// cachedRoutes is a resolver that has routes of some domains in its cache.
type cachedRoutes map[string]engine.Route

func (c cachedRoutes) Route(context.Context, string) engine.Route { panic("a lookup was made") }

func (c cachedRoutes) CachedRoute(domain string) (engine.Route, bool) {
	route, ok := c[domain]
	return route, ok
}

// TestCachedRoutesNeedNoLookup: the route of a domain that the resolver has cached is known at once. A failed lookup is
// made again, and one that is not cached is made.
func TestCachedRoutesNeedNoLookup(t *testing.T) {
	table := engine.DefaultTable()
	found := table.NewRoute([]engine.MX{{Host: "mx2.cached.example", Preference: 20},
		{Host: "mx1.cached.example", Preference: 10}})
	d := domains{recent: map[string]*domain{}, older: map[string]*domain{}, resolver: cachedRoutes{
		"cached.example": found, "absent.example": table.NoRoute(engine.FactNoDomain),
		"broken.example": table.NoRoute(engine.FactServFail),
	}}
	x := d.get("cached.example")
	require.NotNil(t, x)
	require.True(t, x.resolved)
	require.Equal(t, found, x.route.Route)
	require.Equal(t, "mx1.cached.example mx2.cached.example", x.route.Mx)
	require.Same(t, x, d.get("cached.example"), "it is remembered")
	require.Equal(t, "cached.example", d.lastFound)
	require.Equal(t, engine.FactNoDomain, d.get("absent.example").route.Fact)
	require.Equal(t, "cached.example", d.lastFound, "a check of the resolver takes a domain that exists")
	require.Nil(t, d.get("broken.example"))
	require.Nil(t, d.get("new.example"))
	require.Zero(t, d.pending)
}
