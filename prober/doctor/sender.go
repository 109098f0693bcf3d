package doctor

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"blitiri.com.ar/go/spf"
	"github.com/miekg/dns"

	"probity/engine/smtp"
)

// checkSender audits the domain of MAIL FROM: receivers look it up before they answer.
func (a *audit) checkSender(ctx context.Context) []Finding {
	s := subject{"mail-from", printable(a.MailFrom)}
	switch {
	case a.MailFrom == "":
		return []Finding{subject{"mail-from", "-"}.fail("give --mail-from with an address of a mailbox that exists",
			"no MAIL FROM: public mail servers are not asked")}
	case !hostName(a.domain):
		return []Finding{s.fail("give --mail-from with an address of a mailbox that exists",
			"not an e-mail address in a domain")}
	}
	return append([]Finding{s.ok("an address in %s", a.domain), a.checkSOA(ctx)}, a.checkMXHosts(ctx)...)
}

// checkSOA checks that the zone of the domain has an SOA record: some receivers refuse senders whose domain has none.
func (a *audit) checkSOA(ctx context.Context) Finding {
	s := subject{"soa", a.domain}
	got := a.ask(ctx, a.domain, dns.TypeSOA)
	switch {
	case got.outcome == failed:
		return s.unknown("check the name servers of the domain", "%s", got.describe())
	case got.outcome == noDomain:
		return s.fail("register the domain, or take another for --mail-from", "no such domain")
	case got.outcome == found:
		return s.ok("has one")
	case got.zone:
		return s.ok("its zone has one")
	}
	return s.fail("repair the zone: its name servers must serve an SOA record",
		"no SOA record, and none of the zone above")
}

// mx is one mail server of our own domain.
type mx struct {
	host       string
	preference uint16
}

// mxOf reads MX records, best first; a lone "." is a null MX (RFC 7505).
func mxOf(records []dns.RR) (hosts []mx, null bool) {
	for _, rr := range records {
		m, ok := rr.(*dns.MX)
		if ok && m.Mx == "." {
			null = len(records) == 1
		} else if ok {
			hosts = append(hosts, mx{strings.ToLower(strings.TrimSuffix(m.Mx, ".")), m.Preference})
		}
	}
	slices.SortStableFunc(hosts, func(a, b mx) int { return int(a.preference) - int(b.preference) })
	return hosts, null
}

// maxMXHosts is how many mail servers of our own domain are looked at.
const maxMXHosts = 10

// checkMXHosts checks that replies to MAIL FROM can be delivered: receivers refuse senders that cannot be answered.
func (a *audit) checkMXHosts(ctx context.Context) []Finding {
	s := subject{"mx", a.domain}
	got := a.ask(ctx, a.domain, dns.TypeMX)
	hosts, null := mxOf(got.records)
	switch {
	case got.outcome == failed:
		return []Finding{s.unknown("check the name servers of the domain", "%s", got.describe())}
	case null:
		return []Finding{s.fail("publish an MX record with a server that takes mail for the domain",
			"null MX: the domain says that it takes no mail")}
	case len(hosts) == 0:
		return []Finding{a.checkImplicitMX(ctx, s, got)}
	}
	var out []Finding
	for _, h := range hosts[:min(len(hosts), maxMXHosts)] {
		out = append(out, a.checkMXHost(ctx, h))
	}
	return out
}

// checkImplicitMX is a domain without MX: its own address counts (RFC 5321 section 5.1), but receivers trust it less.
func (a *audit) checkImplicitMX(ctx context.Context, s subject, mx answer) Finding {
	const publish = "publish an MX record with a server that takes mail for the domain"
	addrs, got := a.bothAddrs(ctx, a.domain)
	switch {
	case len(addrs) > 0:
		return s.warn(publish, "no MX record; the domain's own address stands in")
	case got.outcome == failed:
		return s.unknown("check the name servers of the domain", "%s", got.describe())
	}
	return s.fail(publish, "no MX and no address record: %s", mx.describe())
}

// checkMXHost checks that one MX host can be connected to.
func (a *audit) checkMXHost(ctx context.Context, h mx) Finding {
	s := subject{"mx", a.domain + " " + printable(h.host)}
	addrs, got := a.bothAddrs(ctx, h.host)
	switch {
	case len(addrs) == 0 && got.outcome == failed:
		return s.unknown("check the name servers of that host", "%s", got.describe())
	case len(addrs) == 0:
		return s.fail("give the host an address record, or take it out of the MX records",
			"the host has no address: %s", got.describe())
	case !a.AllowPrivate && !slices.ContainsFunc(addrs, isPublic):
		return s.fail("give the host a public address", "the host has no public address: %s", joinFirst(addrs))
	case got.alias:
		return s.warn("point the MX record to a name with address records of its own",
			"the host is an alias, which RFC 2181 section 10.3 forbids")
	}
	return s.ok("%s", joinFirst(addrs))
}

func isPublic(addr netip.Addr) bool { return smtp.ClassOf(addr) == smtp.Public }

// checkSPF checks that SPF of the MAIL FROM domain lets the address send (RFC 7208).
func (a *audit) checkSPF(ctx context.Context, public netip.Addr, ehlo string) Finding {
	s := subject{"spf", public.String()}
	if !hostName(a.domain) {
		return s.unknown("give --mail-from", "no MAIL FROM domain whose SPF could be looked up")
	}
	mechanism := "ip4:"
	if public.Is6() {
		mechanism = "ip6:"
	}
	add := "add " + mechanism + public.String() + " to the SPF record of " + a.domain
	result, err := a.evaluateSPF(ctx, public, a.addr, ehlo)
	reason := "no mechanism matches"
	if err != nil {
		reason = printable(err.Error())
	}
	switch result {
	case spf.Pass:
		if errors.Is(err, spf.ErrMatchedAll) {
			return s.warn("end the SPF record of "+a.domain+" with -all or ~all, and name the addresses",
				"permitted, but so is the whole world: %s", reason)
		}
		return s.ok("permitted by the SPF record of %s: %s", a.domain, reason)
	case spf.None:
		return s.warn("publish TXT \"v=spf1 "+mechanism+public.String()+" -all\" at "+a.domain, "%s has no SPF record",
			a.domain)
	case spf.Fail:
		return s.fail(add, "SPF of %s forbids this address: %s", a.domain, reason)
	case spf.SoftFail:
		return s.warn(add, "SPF of %s disowns this address (softfail): %s", a.domain, reason)
	case spf.Neutral:
		return s.warn(add, "SPF of %s says nothing of this address (neutral): %s", a.domain, reason)
	case spf.PermError:
		return s.fail("correct the SPF record of "+a.domain, "SPF of %s is invalid, so it counts for nothing: %s",
			a.domain, reason)
	}
	return s.unknown("check the name servers that its SPF record leads to", "SPF cannot be evaluated now: %s", reason)
}
