package engine

import (
	"slices"
	"strings"
	"time"
)

// Fact is what DNS says about where a domain receives mail. NXDOMAIN, NODATA, SERVFAIL and a timeout are four different
// facts.
type Fact uint8

// The facts; the zero value means that DNS was not asked.
const (
	FactUnasked    Fact = iota
	FactMX              // at least one usable MX record
	FactImplicit        // no MX, but an address record: the domain itself is the host (RFC 5321 section 5.1)
	FactNullMX          // MX 0 "." (RFC 7505)
	FactNoDomain        // NXDOMAIN (RFC 8020)
	FactNoServer        // the domain exists, but has neither MX nor address record
	FactUnroutable      // every MX host has only addresses that cannot be mail servers, or none
	FactServFail        // a server failed to answer: nothing is known
	FactDNSTimeout      // no server answered in time: nothing is known
)

var factNames = [...]string{"unasked", "mx", "implicit_mx", "null_mx", "no_domain", "no_server", "unroutable",
	"servfail", "timeout"}

func (f Fact) String() string { return nameOf(factNames[:], uint8(f)) }

// Routable reports whether there are hosts to connect to.
func (f Fact) Routable() bool { return f == FactMX || f == FactImplicit }

// MX is one MX record. Host is a lower-case A-label without a final dot.
type MX struct {
	Preference uint16
	Host       string
}

// Route says where mail for a domain goes. It is immutable and shared by all addresses of the domain.
type Route struct {
	Fact     Fact
	Key      string    // provider id, else the sorted MX set joined by ","; empty when not routable
	Hosts    []string  // hosts to try, best first; at most 16 are kept
	MX       []string  // what mx_records shows: empty for an implicit MX
	Provider *Provider // never nil after the lookup; Table.Unknown for hosts of no known provider
	FoundAt  time.Time // when the DNS said so; zero if that is not known
}

// maxRouteHosts bounds what a hostile zone can make us store; at most three hosts are tried.
const maxRouteHosts = 16

// NewRoute makes the route of a domain from its MX set. An MX set that holds only "." is a null MX (RFC 7505 section
// 3); a "." together with other hosts is ignored. An empty set gives FactNoServer.
func (t *Table) NewRoute(records []MX) Route {
	if !slices.IsSortedFunc(records, compareMX) { // those of a resolver are sorted
		records = slices.Clone(records)
		slices.SortStableFunc(records, compareMX)
	}
	hosts := make([]string, 0, min(len(records), maxRouteHosts))
	for _, r := range records {
		if r.Host != "" && r.Host != "." && len(hosts) < maxRouteHosts && !slices.Contains(hosts, r.Host) {
			hosts = append(hosts, r.Host)
		}
	}
	switch {
	case len(hosts) > 0:
		return t.route(FactMX, hosts, hosts)
	case len(records) > 0:
		return Route{Fact: FactNullMX, Provider: t.Unknown}
	}
	return t.NoRoute(FactNoServer)
}

func compareMX(a, b MX) int {
	if a.Preference != b.Preference {
		return int(a.Preference) - int(b.Preference)
	}
	return strings.Compare(a.Host, b.Host)
}

// ImplicitRoute is the route of a domain without MX records that has an address of its own.
func (t *Table) ImplicitRoute(domain string) Route {
	return t.route(FactImplicit, []string{domain}, nil)
}

// NoRoute is a route without hosts, for the given fact.
func (t *Table) NoRoute(f Fact) Route { return Route{Fact: f, Provider: t.Unknown} }

func (t *Table) route(f Fact, hosts, shown []string) Route {
	r := Route{Fact: f, Hosts: hosts, MX: shown, Provider: t.Match(hosts)}
	if r.Provider != t.Unknown {
		r.Key = r.Provider.ID
		return r
	}
	sorted := slices.Clone(hosts)
	slices.Sort(sorted)
	r.Key = strings.Join(sorted, ",")
	return r
}
