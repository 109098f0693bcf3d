package doctor

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"probity/engine/smtp"
)

// noIdentity is the finding of a node without an egress identity.
func noIdentity(context.Context) []Finding {
	return []Finding{subject{"identity", "-"}.fail("give --egress LOCAL[/PUBLIC]=EHLO-NAME for each address to probe from",
		"no egress identity: public mail servers are not asked")}
}

// checkIdentity audits one egress identity by what receivers look up: EHLO name, PTR, and SPF for its address.
func (a *audit) checkIdentity(ctx context.Context, id Identity) []Finding {
	out := []Finding{a.checkPublicAddress(id)}
	out = append(out, a.checkEHLO(ctx, id))
	public := id.public()
	if !public.IsValid() {
		return out
	}
	out = append(out, a.checkPTR(ctx, id)...)
	return append(out, a.checkSPF(ctx, public, id.EHLO))
}

// checkPublicAddress checks that receivers can have seen the address that is audited.
func (c *Config) checkPublicAddress(id Identity) Finding {
	s := subject{"identity", id.name()}
	public := id.public()
	switch {
	case !public.IsValid():
		return s.unknown("name it: --egress LOCAL/PUBLIC="+printable(id.EHLO),
			"the public address is not known, so PTR, SPF and blocklists cannot be checked")
	case !c.AllowPrivate && smtp.ClassOf(public) != smtp.Public:
		return s.fail("name the address that receivers see: --egress LOCAL/PUBLIC="+printable(id.EHLO),
			"%s is not a public address", public)
	}
	return s.ok("greets as %s", printable(id.EHLO))
}

// localTLDs end names that no receiver can resolve (RFC 6762, RFC 8375, RFC 6761, ICANN's .internal).
var localTLDs = [...]string{"local", "localhost", "localdomain", "internal", "intranet", "lan", "home", "corp", "arpa",
	"invalid"}

// checkEHLO checks the EHLO name: an FQDN that leads to the public address (RFC 5321 section 4.1.1.1).
func (a *audit) checkEHLO(ctx context.Context, id Identity) Finding {
	s := subject{"ehlo", printable(id.EHLO)}
	const choose = "set the EHLO name in --egress to a host name of your own that resolves to the public address"
	switch {
	case strings.HasPrefix(id.EHLO, "["):
		return s.warn(choose, "an address literal: allowed, but many receivers refuse it")
	case !hostName(id.EHLO):
		return s.fail(choose, "not a fully qualified domain name")
	case slices.Contains(localTLDs[:], strings.ToLower(id.EHLO[strings.LastIndexByte(id.EHLO, '.')+1:])):
		return s.fail(choose, "a name of a local network, which receivers cannot resolve")
	}
	public := id.public()
	addrs, got := a.addrs(ctx, id.EHLO, public)
	switch {
	case got.outcome == failed:
		return s.unknown("check the name servers of its zone", "%s", got.describe())
	case got.outcome != found:
		return s.fail("publish an address record for it, or greet with another name", "does not resolve: %s",
			got.describe())
	case !public.IsValid():
		return s.ok("resolves to %s", joinFirst(addrs))
	case !slices.Contains(addrs, public):
		return s.fail("add "+public.String()+" to its address records, or greet with the name of that address",
			"resolves to %s, not to %s", joinFirst(addrs), public)
	}
	return s.ok("resolves to %s", public)
}

// checkPTR checks the PTR record and that its name leads back to the address: the forward match that receivers ask for.
func (a *audit) checkPTR(ctx context.Context, id Identity) []Finding {
	public := id.public()
	s := subject{"ptr", public.String()}
	arpa, err := dns.ReverseAddr(public.String())
	if err != nil {
		return []Finding{s.unknown("check --egress", "no reverse name")}
	}
	got := a.ask(ctx, arpa, dns.TypePTR)
	names := pointers(got.records)
	switch {
	case got.outcome == failed:
		return []Finding{s.unknown("check the name servers of the reverse zone with your provider", "%s",
			got.describe())}
	case len(names) == 0:
		return []Finding{s.fail("ask the owner of the address (your hoster) to set its PTR record to "+
			printable(id.EHLO), "no PTR record: %s", got.describe())}
	}
	return []Finding{a.checkForward(ctx, s, id, names)}
}

// maxPointers is how many PTR names are followed (RFC 7208 section 4.6.4 sets the same bound).
const maxPointers = 10

// checkForward judges the PTR names of an address: the best of them counts.
func (a *audit) checkForward(ctx context.Context, s subject, id Identity, names []string) Finding {
	public, unanswered := id.public(), ""
	var confirmed []string
	for _, name := range names[:min(len(names), maxPointers)] {
		addrs, got := a.addrs(ctx, name, public)
		if got.outcome == failed {
			unanswered = printable(name) + ": " + got.describe()
		}
		if slices.Contains(addrs, public) {
			confirmed = append(confirmed, strings.TrimSuffix(name, "."))
		}
	}
	ehlo := strings.TrimSuffix(strings.ToLower(id.EHLO), ".")
	switch {
	case len(confirmed) == 0 && unanswered != "":
		return s.unknown("check the name servers of that name", "the PTR name could not be looked up: %s", unanswered)
	case len(confirmed) == 0:
		return s.fail("give the PTR name an address record with "+public.String()+", or set the PTR to "+
			printable(id.EHLO), "the PTR name %s does not lead back to the address", printable(names[0]))
	case len(names) > 1:
		return s.warn("keep one PTR record: "+printable(id.EHLO), "%d PTR records; receivers pick any of them",
			len(names))
	case looksGeneric(confirmed[0], public):
		return s.warn("ask the owner of the address to set the PTR record to "+printable(id.EHLO),
			"the PTR name %s looks like that of a dial-up or rented address", printable(confirmed[0]))
	case !strings.EqualFold(confirmed[0], ehlo):
		return s.warn("set the PTR record to "+printable(id.EHLO)+", or greet as "+printable(confirmed[0]),
			"the PTR name %s is not the EHLO name %s", printable(confirmed[0]), printable(ehlo))
	}
	return s.ok("%s, and back", printable(confirmed[0]))
}

func pointers(records []dns.RR) []string {
	var names []string
	for _, rr := range records {
		if p, ok := rr.(*dns.PTR); ok {
			names = append(names, p.Ptr)
		}
	}
	return names
}

// genericWords occur in names that access providers give to their customers' addresses.
var genericWords = [...]string{"dynamic", "dyn", "dhcp", "pool", "dsl", "adsl", "cable", "ppp", "dialup", "broadband",
	"static", "customer", "unassigned"}

// looksGeneric reports whether name is a name that spells its address, or says what kind of line it is.
func looksGeneric(name string, addr netip.Addr) bool {
	name = strings.ToLower(name)
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' })
	for _, w := range words {
		if slices.Contains(genericWords[:], strings.TrimRight(w, "0123456789")) {
			return true
		}
	}
	if !addr.Is4() {
		return false
	}
	spelt := 0
	for _, octet := range addr.As4() {
		if slices.Contains(words, strconv.Itoa(int(octet))) {
			spelt++
		}
	}
	return spelt == 4
}
