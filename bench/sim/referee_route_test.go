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
	google, mimecast := &Persona{Provider: "google"}, &Persona{Provider: "mimecast"}
	for _, tt := range []struct {
		domain Domain
		want   string
	}{
		{*d, "mx.example,mx2.example"},
		{Domain{Name: "own.example", Persona: d.Persona}, "own.example"},
		{Domain{Name: "g.example", Persona: google, MX: d.MX}, ""},
		{Domain{Name: "m.example", Persona: mimecast, MX: d.MX}, "mimecast"},
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
