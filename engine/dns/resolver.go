package dns

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
)

// Resolver answers Route and Addrs. New makes it; it answers while Run runs, and is safe for concurrent use.
type Resolver struct {
	cfg     Config
	servers servers
	table   atomic.Pointer[engine.Table]
	routes  *cache[cachedRoute]
	hosts   *cache[hostAddrs]

	started  atomic.Bool
	open     chan struct{} // closed once sockets is set
	ready    atomic.Bool   // open is closed
	stopped  chan struct{} // closed once Run is over or has failed
	sockets  []*socket     // set by Run before open is closed
	inFlight chan struct{} // one slot per query that has a socket
	pool     sync.Pool     // of *pending; not shared between resolvers, whose clocks may differ
	counts   counters
}

// New makes a Resolver that finds providers in table. It starts nothing.
func New(cfg Config, table *engine.Table) (*Resolver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if table == nil {
		return nil, errors.New("dns: no provider table")
	}
	r := &Resolver{
		cfg:      cfg,
		routes:   newCache[cachedRoute](cfg.CacheSize),
		hosts:    newCache[hostAddrs](cfg.CacheSize),
		open:     make(chan struct{}),
		stopped:  make(chan struct{}),
		inFlight: make(chan struct{}, cfg.MaxInFlight),
	}
	for _, addr := range cfg.Servers {
		r.servers = append(r.servers, newServer(addr))
	}
	r.table.Store(table)
	return r, nil
}

// SetTable replaces the provider table. Routes that were made with the old one are made again.
func (r *Resolver) SetTable(table *engine.Table) { r.table.Store(table) }

// cachedRoute is a cached route and the table that its provider is from.
type cachedRoute struct {
	route engine.Route
	table *engine.Table
}

// hostAddrs is what is known about a host's addresses.
type hostAddrs struct {
	addrs []netip.Addr
	fact  engine.Fact
}

// Route finds where mail for a domain goes. The domain is a lower-case A-label without a final dot, as engine.Parse
// makes it. It never fails: a failed lookup is a fact too. A caller whose context ends gets FactDNSTimeout. Until Run
// has opened its sockets it waits; after Run it returns FactDNSTimeout.
func (r *Resolver) Route(ctx context.Context, domain string) engine.Route {
	if !validName(domain) {
		return r.table.Load().NoRoute(engine.FactNoDomain) // no such name can exist (RFC 1035 section 2.3.4)
	}
	for {
		table := r.table.Load()
		got, ok := r.routes.get(ctx, domain, func() (cachedRoute, time.Duration) {
			route, ttl := r.findRoute(ctx, table, domain)
			route.FoundAt = time.Now()
			return cachedRoute{route, table}, ttl
		})
		switch {
		case !ok:
			return table.NoRoute(engine.FactDNSTimeout)
		case got.table == table:
			return got.route
		}
		r.routes.forget(domain)
	}
}

// Whether the IPv6 addresses of a host are looked up.
const (
	WithIPv6  = true
	IPv4First = false // only if it has no IPv4 address
)

// CachedRoute returns what Route would return without a lookup, and false if that takes one.
func (r *Resolver) CachedRoute(domain string) (engine.Route, bool) {
	got, ok := r.routes.kept(domain)
	return got.route, ok && got.table == r.table.Load()
}

// Addrs finds the addresses of a host, at most 16, IPv4 first. IPv6 is looked up with want6, and if there is no IPv4
// address, so that a host with IPv6 only does not count as one without an address. The fact is FactImplicit if there is
// an address; else FactNoDomain, FactNoServer (the name exists, without an address), FactServFail or FactDNSTimeout,
// and addrs is empty. The slice is shared: it must not be changed.
func (r *Resolver) Addrs(ctx context.Context, host string, want6 bool) (addrs []netip.Addr, fact engine.Fact) {
	if !validName(host) {
		return nil, engine.FactNoDomain
	}
	key := host
	if want6 {
		key = host + "/6" // no host name has a slash
	}
	got, ok := r.hosts.get(ctx, key, func() (hostAddrs, time.Duration) { return r.findAddrs(ctx, host, want6) })
	if !ok {
		return nil, engine.FactDNSTimeout
	}
	return got.addrs, got.fact
}

// findRoute looks up MX, and addresses only if there is no MX (RFC 5321 section 5.1).
func (r *Resolver) findRoute(ctx context.Context, table *engine.Table, domain string) (engine.Route, time.Duration) {
	a := r.lookup(ctx, question{domain, typeMX})
	switch {
	case a.outcome == found && a.onlyBadHosts():
		return table.NoRoute(engine.FactUnroutable), r.cfg.cacheTTL(a)
	case a.outcome == found:
		return table.NewRoute(a.mx), r.cfg.cacheTTL(a)
	case a.outcome != noData:
		return table.NoRoute(a.fact()), r.cfg.cacheTTL(a)
	}
	host, ttl := r.findAddrs(ctx, domain, IPv4First)
	ttl = min(ttl, r.cfg.cacheTTL(a))
	switch {
	case host.fact == engine.FactImplicit:
		return table.ImplicitRoute(domain), ttl
	case a.unconfirmed:
		return table.NoRoute(engine.FactServFail), r.cfg.FailureTTL
	case host.fact == engine.FactNoDomain:
		// The MX answer said that the name exists: a server that confuses NXDOMAIN and NODATA must not make it
		// nonexistent.
		return table.NoRoute(engine.FactNoServer), ttl
	}
	return table.NoRoute(host.fact), ttl
}

// findAddrs looks up A, then AAAA if that is wanted or there is no A.
func (r *Resolver) findAddrs(ctx context.Context, host string, want6 bool) (hostAddrs, time.Duration) {
	four := r.lookup(ctx, question{host, typeA})
	if four.outcome == nxDomain || !want6 && four.outcome != noData {
		return hostAddrs{four.addrs, four.fact()}, r.cfg.cacheTTL(four)
	}
	six := r.lookup(ctx, question{host, typeAAAA})
	addrs := append(four.addrs[:len(four.addrs):len(four.addrs)], six.addrs...)
	addrs = addrs[:min(len(addrs), maxAddrs)]
	ttl := min(r.cfg.cacheTTL(four), r.cfg.cacheTTL(six))
	switch {
	case len(addrs) > 0:
		return hostAddrs{addrs, engine.FactImplicit}, ttl
	case four.outcome.failed():
		return hostAddrs{nil, four.fact()}, ttl
	case four.unconfirmed:
		return hostAddrs{nil, engine.FactServFail}, r.cfg.FailureTTL
	case six.outcome == nxDomain: // the A answer said that the name exists
		return hostAddrs{nil, engine.FactNoServer}, ttl
	}
	return hostAddrs{nil, six.fact()}, ttl
}
