package referee

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"probity/bench/sim/world"
)

// narrowDomain is a domain behind a strict host, and that host.
func narrowDomain() (*world.Domain, *world.Host) {
	host := strictHost()
	d := &world.Domain{Name: "d.example", Persona: host.Persona,
		MX: []world.MX{{Pref: 10, Host: "mx2.example"}, {Pref: 20, Host: "mx.example"}}}
	d.Route = "mx.example,mx2.example"
	return d, host
}

// TestRefereeCountsRoutesOverAllSources: two sources keep to the limits, first each alone, then both at one route.
func TestRefereeCountsRoutesOverAllSources(t *testing.T) {
	second := netip.MustParseAddr("127.0.0.2")
	// turn is a source's connection: so many recipients of the domain, some of them refused.
	askRoute := func(r *Referee, source netip.Addr, asked, refused int, now time.Time) *Connection {
		d, host := narrowDomain()
		var conn *Connection
		for i := range asked {
			if i%8 == 0 {
				if conn != nil {
					conn.Close()
				}
				conn = r.Connect(now, source, host)
			}
			conn.CountRcpt(now)
			conn.CountOnRoute(r, source, d, now)
			if i < refused {
				conn.CountRefusal(now)
			}
		}
		return conn
	}
	for _, tt := range []struct {
		kind string
		do   func(r *Referee)
		want int
	}{
		{"", func(r *Referee) {
			askRoute(r, client, 20, 3, noon).Close()
			askRoute(r, second, 20, 3, noon.Add(2*time.Minute)).Close()
		}, 0},
		{"sources_of_a_route", func(r *Referee) {
			conn := askRoute(r, client, 1, 0, noon)
			askRoute(r, second, 2, 0, noon.Add(time.Minute)).Close()
			conn.Close()
		}, 2},
		{"rcpts_of_a_route_per_minute", func(r *Referee) {
			askRoute(r, client, 20, 0, noon).Close()
			askRoute(r, second, 20, 0, noon.Add(10*time.Second)).Close()
		}, 10},
		{"refusals_of_a_route_per_hour", func(r *Referee) {
			askRoute(r, client, 8, 4, noon).Close()
			askRoute(r, second, 8, 4, noon.Add(50*time.Minute)).Close()
		}, 2},
	} {
		r := New(1)
		tt.do(r)
		got := excesses(r)
		for _, kind := range []string{"sources_of_a_route", "rcpts_of_a_route_per_minute",
			"refusals_of_a_route_per_hour"} {
			want := 0
			if kind == tt.kind {
				want = tt.want
			}
			if got[kind] != want {
				t.Errorf("%q: %d of %s, want %d", tt.kind, got[kind], kind, want)
			}
		}
		uses := r.Report().Routes
		if len(uses) != 1 || uses[0].Routes != 1 || uses[0].Moved != 1 {
			t.Errorf("%q: routes %+v", tt.kind, uses)
			continue
		}
		first := uses[0].FirstExcess
		if (first != nil) != (tt.want > 0) {
			t.Errorf("%q: first excess %+v", tt.kind, first)
		}
		if first != nil && (first.Kind != tt.kind || first.Route != "mx.example,mx2.example" ||
			first.Users[0].Source != "127.0.0.2") {
			t.Errorf("%q: first excess %+v", tt.kind, first)
		}
	}
}

// TestRefereeRequiresOneSourcePerTenant: two sources use a gateway: each may use its full limits, but not both one
// domain.
func TestRefereeRequiresOneSourcePerTenant(t *testing.T) {
	second := netip.MustParseAddr("127.0.0.2")
	host := strictHost()
	gateway := *host.Persona
	gateway.Provider = "proofpoint"
	host.Persona = &gateway
	tenant := func(name string) *world.Domain {
		d := &world.Domain{Name: name, Persona: &gateway, MX: []world.MX{{Pref: 10, Host: "mx.example"}}}
		d.Route = name
		return d
	}
	a, b := tenant("a.example"), tenant("b.example")
	tracked := func(r *Referee, source netip.Addr, now time.Time, domains ...*world.Domain) *Connection {
		conn := r.Connect(now, source, host)
		for _, d := range domains {
			conn.CountRcpt(now)
			conn.CountOnRoute(r, source, d, now)
			conn.CountRefusal(now)
		}
		return conn
	}
	for _, tt := range []struct {
		name  string
		do    func(r *Referee)
		want  int
		moved int
	}{
		{"each its own", func(r *Referee) {
			one, other := tracked(r, client, noon, a, a), tracked(r, second, noon, b, b)
			one.Close()
			other.Close()
		}, 0, 0},
		{"both at one", func(r *Referee) {
			one, other := tracked(r, client, noon, a), tracked(r, second, noon, b, a)
			one.Close()
			other.Close()
		}, 1, 1},
		{"one after the other", func(r *Referee) {
			tracked(r, client, noon, a).Close()
			tracked(r, second, noon.Add(time.Minute), a).Close()
		}, 0, 1},
	} {
		r := New(1)
		tt.do(r)
		got, moved := excesses(r), 0
		for _, u := range r.Report().Routes {
			moved += u.Moved
		}
		if got["sources_of_a_tenant"] != tt.want || moved != tt.moved || got["refusals_of_a_route_per_hour"] != 0 {
			t.Errorf("%s: %v, %d moved, want %d and %d", tt.name, got, moved, tt.want, tt.moved)
		}
	}
}

// TestFirstExcessNamesBothSources: the report says when two sources used a route at one time, and since when each did.
func TestFirstExcessNamesBothSources(t *testing.T) {
	r, second := New(1), netip.MustParseAddr("127.0.0.2")
	d, host := narrowDomain()
	former := r.Connect(noon, client, host)
	former.CountOnRoute(r, client, d, noon)
	for i := range 2 {
		at := noon.Add(time.Duration(i+1) * time.Minute)
		r.Connect(at, second, host).CountOnRoute(r, second, d, at)
	}
	got := r.Report().Routes[0].FirstExcess
	want := RouteExcess{At: noon.Add(time.Minute), Route: d.Route, Kind: "sources_of_a_route", Users: []RouteSource{
		{Source: "127.0.0.2", Connections: 1, Since: noon.Add(time.Minute), Last: noon.Add(time.Minute)},
		{Source: client.String(), Connections: 1, Since: noon, Last: noon},
	}}
	if got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
