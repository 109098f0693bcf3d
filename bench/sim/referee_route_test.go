package sim

import (
	"net/netip"
	"testing"
	"time"
)

// narrowDomain is a domain behind a strict host, and that host.
func narrowDomain() (*Domain, *Host) {
	host := strictHost()
	d := &Domain{Name: "d.example", Persona: host.Persona, MX: []MX{{10, "mx2.example"}, {20, "mx.example"}}}
	d.route = routeKey(d)
	return d, host
}

func TestRouteIsNamedByItsHosts(t *testing.T) {
	d, _ := narrowDomain()
	google, mimecast, orange := &Persona{Provider: "google"}, &Persona{Provider: "mimecast"}, &Persona{Provider: "orange"}
	for _, tt := range []struct {
		domain Domain
		want   string
	}{
		{*d, "mx.example,mx2.example"},
		{Domain{Name: "own.example", Persona: d.Persona}, "own.example"},
		{Domain{Name: "g.example", Persona: google, MX: d.MX}, ""},
		{Domain{Name: "m.example", Persona: mimecast, MX: d.MX}, "m.example"},
		{Domain{Name: "o.example", Persona: orange, MX: d.MX}, "orange"},
	} {
		if got := routeKey(&tt.domain); got != tt.want {
			t.Errorf("%s: route %q, want %q", tt.domain.Name, got, tt.want)
		}
	}
}

// TestRefereeCountsRoutesOverAllSources has two sources keep to the limits, each alone, and both at one route.
func TestRefereeCountsRoutesOverAllSources(t *testing.T) {
	second := netip.MustParseAddr("127.0.0.2")
	// turn is a source's visit: so many recipients of the domain, some of them refused.
	turn := func(r *Referee, source netip.Addr, asked, refused int, now time.Time) *visit {
		d, host := narrowDomain()
		var v *visit
		for i := range asked {
			if i%8 == 0 {
				if v != nil {
					v.leave()
				}
				v = r.arrive(now, source, host)
			}
			v.rcpt(now)
			v.asks(r, source, d, now)
			if i < refused {
				v.refuse(now, 0)
			}
		}
		return v
	}
	for _, tt := range []struct {
		kind string
		do   func(r *Referee)
		want int
	}{
		{"", func(r *Referee) {
			turn(r, client, 20, 3, noon).leave()
			turn(r, second, 20, 3, noon.Add(2*time.Minute)).leave()
		}, 0},
		{"sources_of_a_route", func(r *Referee) {
			v := turn(r, client, 1, 0, noon)
			turn(r, second, 2, 0, noon.Add(time.Minute)).leave()
			v.leave()
		}, 2},
		{"rcpts_of_a_route_per_minute", func(r *Referee) {
			turn(r, client, 20, 0, noon).leave()
			turn(r, second, 20, 0, noon.Add(10*time.Second)).leave()
		}, 10},
		{"refusals_of_a_route_per_hour", func(r *Referee) {
			turn(r, client, 8, 4, noon).leave()
			turn(r, second, 8, 4, noon.Add(50*time.Minute)).leave()
		}, 2},
	} {
		r := NewReferee(1)
		tt.do(r)
		got := excesses(r)
		for _, kind := range []string{"sources_of_a_route", "rcpts_of_a_route_per_minute", "refusals_of_a_route_per_hour"} {
			want := 0
			if kind == tt.kind {
				want = tt.want
			}
			if got[kind] != want {
				t.Errorf("%q: %d of %s, want %d", tt.kind, got[kind], kind, want)
			}
		}
		if uses := r.Report().Routes; len(uses) != 1 || uses[0].Routes != 1 || uses[0].Moved != 1 {
			t.Errorf("%q: routes %+v", tt.kind, uses)
		}
	}
}

// TestRefereeWantsOneSourceForATenant has two sources ask a gateway: each may use all that it tolerates, but not at one domain.
func TestRefereeWantsOneSourceForATenant(t *testing.T) {
	second := netip.MustParseAddr("127.0.0.2")
	host := strictHost()
	gateway := *host.Persona
	gateway.Provider = "proofpoint"
	host.Persona = &gateway
	tenant := func(name string) *Domain {
		d := &Domain{Name: name, Persona: &gateway, MX: []MX{{10, "mx.example"}}}
		d.route = routeKey(d)
		return d
	}
	a, b := tenant("a.example"), tenant("b.example")
	visit := func(r *Referee, source netip.Addr, now time.Time, domains ...*Domain) *visit {
		v := r.arrive(now, source, host)
		for _, d := range domains {
			v.rcpt(now)
			v.asks(r, source, d, now)
			v.refuse(now, 0)
		}
		return v
	}
	for _, tt := range []struct {
		name  string
		do    func(r *Referee)
		want  int
		moved int
	}{
		{"each its own", func(r *Referee) {
			one, other := visit(r, client, noon, a, a), visit(r, second, noon, b, b)
			one.leave()
			other.leave()
		}, 0, 0},
		{"both at one", func(r *Referee) {
			one, other := visit(r, client, noon, a), visit(r, second, noon, b, a)
			one.leave()
			other.leave()
		}, 1, 1},
		{"one after the other", func(r *Referee) {
			visit(r, client, noon, a).leave()
			visit(r, second, noon.Add(time.Minute), a).leave()
		}, 0, 1},
	} {
		r := NewReferee(1)
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
