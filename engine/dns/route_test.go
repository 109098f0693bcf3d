package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"probity/engine"
)

const examples = `
plain.example.     600 MX 20 Backup.Plain.Example.
plain.example.     600 MX 10 mx.plain.example.
null.example.      600 MX 0 .
nullplus.example.  600 MX 0 .
nullplus.example.  600 MX 10 mx.plain.example.
implicit.example.  600 A 192.0.2.80
implicit6.example. 600 AAAA 2001:db8::80
nothing.example.   600 TXT "nobody"
alias.example.     600 CNAME plain.example.
aliasimp.example.  600 CNAME implicit.example.
dangling.example.  600 CNAME gone.example.
loop1.example.     600 CNAME loop2.example.
loop2.example.     600 CNAME loop1.example.
self.example.      600 CNAME self.example.
c0.example. 600 CNAME c1.example.
c1.example. 600 CNAME c2.example.
c2.example. 600 CNAME c3.example.
c3.example. 600 CNAME c4.example.
c4.example. 600 CNAME c5.example.
c5.example. 600 CNAME c6.example.
c6.example. 600 CNAME c7.example.
c7.example. 600 CNAME plain.example.
deep.example. 600 CNAME c0.example.
deep0.example. 600 CNAME deep.example.
broken.example.    SERVFAIL
refused.example.   REFUSED
lame.example.      LAME
silent.example.    SILENT
brokena.example.   600 TXT "x"
brokena.example.   A SERVFAIL
brokena6.example.  600 TXT "x"
brokena6.example.  AAAA SERVFAIL
silenta.example.   600 TXT "x"
silenta.example.   A SILENT
escaped.example.   600 MX 10 a\.b.example.
escaped.example.   600 MX 20 mx.plain.example.
onlybad.example.   600 MX 10 a\.b.example.
onlybad.example.   600 MX 0 .
binary.example.    600 MX 10 a\000b.example.
both.example.      600 A 192.0.2.81
both.example.      600 AAAA 2001:db8::81
`

func TestRoute(t *testing.T) {
	for domain, want := range map[string]string{
		"plain.example":     "mx mx.plain.example,backup.plain.example",
		"null.example":      "null_mx",
		"nullplus.example":  "mx mx.plain.example",
		"implicit.example":  "implicit_mx implicit.example",
		"implicit6.example": "implicit_mx implicit6.example",
		"nothing.example":   "no_server",
		"absent.example":    "no_domain",
		"alias.example":     "mx mx.plain.example,backup.plain.example",
		"aliasimp.example":  "implicit_mx aliasimp.example",
		"dangling.example":  "no_domain",
		"loop1.example":     "servfail",
		"self.example":      "servfail",
		"c0.example":        "mx mx.plain.example,backup.plain.example",
		"broken.example":    "servfail",
		"refused.example":   "servfail",
		"lame.example":      "servfail",
		"silent.example":    "timeout",
		"brokena.example":   "servfail",
		"brokena6.example":  "servfail",
		"silenta.example":   "timeout",
		"escaped.example":   "mx mx.plain.example",
		"onlybad.example":   "unroutable",
		"binary.example":    "unroutable",
		"":                  "no_domain",
		"a..b":              "no_domain",
		"-" + strings.Repeat("x", 63) + ".example": "no_domain",
		strings.Repeat("x.", 127) + "example":      "no_domain",
	} {
		for _, noChase := range []bool{false, true} {
			z := parseZone(examples)
			z.noChase = noChase
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle, second: z.handle}}
				route := n.start(t, nil).Route(t.Context(), domain)
				got := strings.TrimSpace(route.Fact.String() + " " + strings.Join(route.Hosts, ","))
				if got != want || route.Provider == nil {
					t.Errorf("%s (noChase %v): %s, want %s", domain, noChase, got, want)
				}
			})
		}
	}
}

func TestAddrs(t *testing.T) {
	for _, c := range []struct {
		host  string
		want6 bool
		want  string
	}{
		{"both.example", false, "implicit_mx [192.0.2.81]"},
		{"both.example", true, "implicit_mx [192.0.2.81 2001:db8::81]"},
		{"implicit.example", true, "implicit_mx [192.0.2.80]"},
		{"implicit6.example", false, "implicit_mx [2001:db8::80]"},
		{"aliasimp.example", false, "implicit_mx [192.0.2.80]"},
		{"nothing.example", false, "no_server []"},
		{"absent.example", true, "no_domain []"},
		{"broken.example", true, "servfail []"},
		{"silent.example", false, "timeout []"},
		{"brokena.example", false, "servfail []"},
		{"brokena6.example", false, "servfail []"},
		{"10.0.0.1", false, "no_domain []"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: parseZone(examples).handle}}
			addrs, fact := n.start(t, nil).Addrs(t.Context(), c.host, c.want6)
			if got := fmt.Sprint(fact, " ", addrs); got != c.want {
				t.Errorf("%s %v: %s, want %s", c.host, c.want6, got, c.want)
			}
		})
	}
}

// A chain that is longer than the bound says nothing about the domain.
func TestAliasChainIsBounded(t *testing.T) {
	for _, noChase := range []bool{false, true} {
		z := parseZone(examples)
		z.noChase = noChase
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle}}
			if fact := n.start(t, nil).Route(t.Context(), "deep0.example").Fact; fact != engine.FactServFail {
				t.Error(noChase, fact)
			}
		})
	}
}

// That a domain does not exist, or has no mail server, is reported only if two servers say so.
func TestNXDomainIsConfirmed(t *testing.T) {
	no := parseZone("").handle
	yes := parseZone(examples).handle
	nodata := parseZone(`plain.example. 600 TXT "x"`).handle
	fails := parseZone("plain.example. SERVFAIL").handle
	silent := parseZone("plain.example. SILENT").handle
	web := parseZone("plain.example. 600 A 192.0.2.7").handle
	for _, c := range []struct {
		name string
		a, b handler
		want engine.Fact
	}{
		{"both", no, no, engine.FactNoDomain},
		{"second knows it", no, yes, engine.FactMX},
		{"second has no records", no, nodata, engine.FactNoServer},
		{"second fails", no, fails, engine.FactServFail},
		{"second is silent", no, silent, engine.FactDNSTimeout},
		{"first fails", fails, no, engine.FactServFail},
		{"one alone", no, nil, engine.FactNoDomain},
		{"both have no records", nodata, nodata, engine.FactNoServer},
		{"first hides the records", nodata, yes, engine.FactMX},
		{"first hides them, second is silent", nodata, silent, engine.FactServFail},
		{"first hides them, second fails", nodata, fails, engine.FactServFail},
		{"first has none, second lies about the domain", nodata, no, engine.FactNoServer},
		{"one alone has no records", nodata, nil, engine.FactNoServer},
		{"no MX, second is silent", web, silent, engine.FactImplicit},
		{"no MX, second hides the address", web, nodata, engine.FactImplicit},
		{"first hides the address", nodata, web, engine.FactImplicit},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: c.a}}
			if c.b != nil {
				n.servers[second] = c.b
			}
			if got := n.start(t, nil).Route(t.Context(), "plain.example").Fact; got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		})
	}
}

// A zone with thousands of MX records costs no more than its sixteen best, in any order.
func TestHostileMXSet(t *testing.T) {
	z := parseZone("")
	for i := range 2000 {
		z.records["huge.example."] = append(z.records["huge.example."],
			rr(fmt.Sprintf("huge.example. 600 MX %d mx%d.example.", 3000-i, i)))
	}
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle}}
		route := n.start(t, nil).Route(t.Context(), "huge.example")
		if len(route.Hosts) != maxMX || route.Hosts[0] != "mx1999.example" || route.Hosts[15] != "mx1984.example" {
			t.Error(route.Hosts)
		}
		if got := n.log(); got != "1 huge.example. MX, 1t huge.example. MX" {
			t.Error(got)
		}
	})
}

// The same set in another order, or with doubles, gives the same route.
func TestMXOrderIsCanonical(t *testing.T) {
	set := []string{"10 c.example.", "10 a.example.", "5 z.example.", "10 b.example.", "10 a.example."}
	var want []string
	for i := range set {
		z := parseZone("")
		for k := range set {
			z.records["x.example."] = append(z.records["x.example."], rr("x.example. 600 MX "+set[(i+k)%len(set)]))
		}
		q := new(dns.Msg).SetQuestion("x.example.", dns.TypeMX)
		msg := z.handle(q, true)
		var r reply
		if !r.read(msg) {
			t.Fatal("not read")
		}
		a := r.parse(question{"x.example", typeMX})
		var got []string
		for _, m := range a.mx {
			got = append(got, m.Host)
		}
		if want == nil {
			want = []string{"z.example", "a.example", "b.example", "c.example"}
		}
		if !slices.Equal(got, want) {
			t.Error(got)
		}
	}
}

// A server that denies the root denies everything: none of its NXDOMAIN counts, however few the queries, and whatever
// it knew before.
func TestServerThatDeniesTheRootIsNotTrusted(t *testing.T) {
	cut := func(text string) *zone { z := parseZone(text); z.noRoot = true; return z }
	for _, c := range []struct {
		name string
		net  *fakeNetwork
		want engine.Fact
		deny int // servers
	}{
		{"alone", &fakeNetwork{servers: map[netip.AddrPort]handler{first: cut("").handle}}, engine.FactServFail, 1},
		{"beside one that denies", pair(cut("").handle, parseZone("").handle), engine.FactServFail, 1},
		{"beside one that knows", pair(cut("").handle, parseZone("absent.example. 600 MX 10 mx.example.").handle),
			engine.FactMX, 1},
		{"both", pair(cut("").handle, cut("").handle), engine.FactServFail, 2},
		{"neither", pair(parseZone("").handle, parseZone("").handle), engine.FactNoDomain, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := c.net.start(t, nil)
			if got := r.Route(t.Context(), "absent.example").Fact; got != c.want {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
			if n := len(r.UntrustedServers()); n != c.deny || (n > 0) != (r.Stats().UntrustedAnswers > 0) {
				t.Errorf("%s: %d servers are told to deny the root, want %d", c.name, n, c.deny)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		z := parseZone("known.example. 600 MX 10 mx.known.example.")
		r := (&fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle}}).start(t, nil)
		r.Route(t.Context(), "known.example")
		z.noRoot = true // from here on it has no upstream
		for i := range denialsBeforeCheck {
			if r.Route(t.Context(), fmt.Sprintf("d%d.example", i)).Fact != engine.FactNoDomain {
				t.Error("not believed while it was trusted:", i)
			}
		}
		if got := r.Route(t.Context(), "last.example").Fact; got != engine.FactServFail {
			t.Error("believed for ever:", got)
		}
		z.noRoot = false // and has one again
		r.Route(t.Context(), "new.example")
		if len(r.UntrustedServers()) > 0 {
			t.Error("told to deny for ever")
		}
	})
}
