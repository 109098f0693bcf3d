package referee

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// A narrow route is a receiver that a cluster of probers may use from one source at a time: its mail hosts belong to
// one site, to which all sources of a cluster are one client. So its limits by the minute and the hour are counted over
// all sources, and the sources that are connected at the same time. A wide receiver is large: each source has its own
// budget there, and it has no route here. A receiver with tenants also counts each source separately, but each domain
// is a route for one source at a time.

// Kinds of excess of a route, over all sources.
const (
	overSources = iota // used from several at one time
	overRouteRcpts
	overRouteRefusals
	routeKinds
)

// everySource stands for the source in entries over all sources.
const everySource = "every source"

func (m *routeMeter) kindName(kind int) string {
	if m.tenant && kind == overSources {
		return "sources_of_a_tenant"
	}
	return [routeKinds]string{"sources_of_a_route", "rcpts_of_a_route_per_minute", "refusals_of_a_route_per_hour"}[kind]
}

// limitOf is the limit of one kind for a route, over all sources.
func (m *routeMeter) limitOf(kind int) int {
	return [routeKinds]int{1, m.limits.RcptsPerMinute, m.limits.RefusalsPerHour}[kind]
}

// routeMeter counts what all sources do at one narrow route, or at one domain of a receiver with tenants.
type routeMeter struct {
	name    string         // the key of the route, or the domain
	persona string         // or the provider's id
	limits  persona.Limits // scaled; none for a tenant, since each source has its own
	tenant  bool

	mu             sync.Mutex // guards what follows
	open           map[netip.Addr]*routeUser
	sources        map[netip.Addr]bool // that ever used it
	rcptsInMinute  window
	refusalsInHour window
	tallies        [routeKinds]tally
	first          *RouteExcess // nil: none
}

// routeUser is a source that has connections which used a route.
type routeUser struct {
	connections int
	since       time.Time // when the first of them used it
	last        time.Time // of its last recipient there
}

// RouteExcess is the first excess of a route: it says where to look for the cause.
type RouteExcess struct {
	At    time.Time     `json:"at"`
	Route string        `json:"route"` // key of the narrow route, or domain of the tenant
	Kind  string        `json:"kind"`
	Users []RouteSource `json:"users"` // the sources with connections that used the route, the latest first
}

// RouteSource is one source at the time of an excess.
type RouteSource struct {
	Source      string    `json:"source"`
	Connections int       `json:"connections"`
	Since       time.Time `json:"since"`             // when the oldest use began
	Last        time.Time `json:"last_recipient_at"` // on the route
}

// routeFor finds or makes the meter of a domain's route; nil if it is wide, or if there are too many.
func (r *Referee) routeFor(d *world.Domain) *routeMeter {
	if d.Route == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.routes[d.Route]
	if m == nil && len(r.routes) < maxMeters {
		m = &routeMeter{name: d.Route, persona: d.Persona.Name, limits: d.Persona.Limits.Scaled(r.speedup),
			open: map[netip.Addr]*routeUser{}, sources: map[netip.Addr]bool{},
			rcptsInMinute: window{part: time.Second}, refusalsInHour: window{part: time.Minute}}
		if d.Persona.Kind() == persona.Tenants {
			m.tenant, m.limits = true, persona.Limits{}
		}
		if p := d.Persona.Provider; p != "" {
			m.persona = p
		}
		r.routes[d.Route] = m
	}
	return m
}

// CountOnRoute counts a recipient at the route of its domain. The source counts as connected to the route until the
// connection ends.
func (conn *Connection) CountOnRoute(r *Referee, source netip.Addr, mailDomain *world.Domain, now time.Time) {
	if conn.domain != mailDomain {
		conn.domain, conn.route = mailDomain, r.routeFor(mailDomain)
		conn.joinRoute(source, now)
	}
	if m := conn.route; m != nil {
		m.mu.Lock()
		if user := m.open[source]; user != nil { // else the server has decided to close
			user.last = now
		}
		m.record(overSources, len(m.open), now)
		m.record(overRouteRcpts, m.rcptsInMinute.add(now), now)
		m.mu.Unlock()
	}
}

// joinRoute records that a source uses a route.
func (conn *Connection) joinRoute(source netip.Addr, now time.Time) {
	m := conn.route
	if m == nil || slices.Contains(conn.routes, m) {
		return
	}
	conn.source, conn.routes = source, append(conn.routes, m)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[source] == nil {
		m.open[source] = &routeUser{since: now}
	}
	m.open[source].connections++
	m.sources[source] = true
}

// leaveRoutes ends the use of all routes of the connection.
func (conn *Connection) leaveRoutes() {
	for _, m := range conn.routes {
		m.mu.Lock()
		m.open[conn.source].connections--
		if m.open[conn.source].connections == 0 {
			delete(m.open, conn.source)
		}
		m.mu.Unlock()
	}
	conn.routes = nil
}

// countRouteRefusal counts a refusal at the route of the recipient.
func (conn *Connection) countRouteRefusal(now time.Time) {
	if m := conn.route; m != nil {
		m.mu.Lock()
		m.record(overRouteRefusals, m.refusalsInHour.add(now), now)
		m.mu.Unlock()
	}
}

// record records a value of one kind. Holds m.mu.
func (m *routeMeter) record(kind, seen int, now time.Time) {
	t := &m.tallies[kind]
	t.seen = max(t.seen, seen)
	if !exceeds(seen, m.limitOf(kind)) {
		return
	}
	t.count++
	if m.first == nil {
		m.first = &RouteExcess{At: now, Route: m.name, Kind: m.kindName(kind)}
		for a, user := range m.open {
			m.first.Users = append(m.first.Users, RouteSource{a.String(), user.connections, user.since, user.last})
		}
		slices.SortFunc(m.first.Users, func(x, y RouteSource) int { return y.Since.Compare(x.Since) })
	}
}

// RouteUse is the use of the narrow routes of one persona, or of its tenants, over all sources.
type RouteUse struct {
	Persona string  `json:"persona"` // or the provider's id
	Routes  int     `json:"routes"`
	Moved   int     `json:"moved"` // routes that more than one source used, one after the other
	Peaks   []Entry `json:"peaks"` // the highest value of each kind, whether within the limit or not

	FirstExcess *RouteExcess `json:"first_excess,omitempty"`
}

// reportRoutes adds the routes and their excesses to a report.
func (r *Referee) reportRoutes(rep *Report) {
	uses := map[string]*RouteUse{}
	for _, m := range r.routeSnapshot() {
		u := uses[m.persona]
		if u == nil {
			u = &RouteUse{Persona: m.persona}
			uses[m.persona] = u
			for kind := range routeKinds {
				u.Peaks = append(u.Peaks, Entry{Persona: m.persona, Source: everySource, Kind: m.kindName(kind),
					Limit: m.limitOf(kind)})
			}
		}
		m.addTo(u)
	}
	for _, u := range uses {
		rep.Routes = append(rep.Routes, *u)
		for _, e := range u.Peaks {
			if e.Count > 0 {
				rep.By = append(rep.By, e)
				rep.Excesses += int64(e.Count)
			}
		}
	}
	slices.SortFunc(rep.Routes, func(a, b RouteUse) int { return strings.Compare(a.Persona, b.Persona) })
}

// addTo adds one route to its persona's RouteUse.
func (m *routeMeter) addTo(u *RouteUse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.Routes++
	if len(m.sources) > 1 {
		u.Moved++
	}
	for kind, t := range m.tallies {
		u.Peaks[kind].Count += t.count
		u.Peaks[kind].Seen = max(u.Peaks[kind].Seen, t.seen)
	}
	if m.first != nil && (u.FirstExcess == nil || m.first.At.Before(u.FirstExcess.At)) {
		u.FirstExcess = m.first
	}
}

func (r *Referee) routeSnapshot() []*routeMeter {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*routeMeter, 0, len(r.routes))
	for _, m := range r.routes {
		all = append(all, m)
	}
	return all
}
