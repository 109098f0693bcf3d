package doctor

import (
	"context"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"probity/engine/smtp"
)

var (
	loopback = netip.MustParsePrefix("127.0.0.0/8")
	// refusal holds the answers by which lists refuse: a public resolver, too many questions, a misspelt zone.
	refusal = netip.MustParsePrefix("127.255.255.0/24")
	// listedTest and cleanTest are entries that every list has, and that none has (RFC 5782 section 5).
	listedTest = netip.MustParseAddr("127.0.0.2")
	cleanTest  = netip.MustParseAddr("127.0.0.1")
)

// publicResolvers are servers that many lists refuse to answer.
var publicResolvers = [...]string{"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "149.112.112.112",
	"208.67.222.222", "208.67.220.220",
	"4.2.2.1", "4.2.2.2", "64.6.64.6", "94.140.14.14", "2001:4860:4860::8888", "2001:4860:4860::8844",
	"2606:4700:4700::1111", "2620:fe::fe"}

const ownResolver = "ask through a resolver of your own (--dns), or register with the list"

// blocklist is one list, asked through the resolvers of an audit.
type blocklist struct {
	*questions
	zone string
}

// check asks the list about one address (RFC 5782 section 2.1).
func (b blocklist) check(ctx context.Context, id Identity) []Finding {
	public := id.public()
	if !public.IsValid() || !b.AllowPrivate && smtp.ClassOf(public) != smtp.Public {
		return nil // reported by checkPublicAddress
	}
	s := subject{"dnsbl", public.String() + " " + b.zone}
	got := b.ask(ctx, listName(public, b.zone), dns.TypeA)
	codes := addrsOf(got.records)
	switch {
	case got.outcome == failed:
		return []Finding{s.unknown(ownResolver, "not checkable: %s%s", got.describe(), b.publicResolverNote())}
	case anyInPrefix(codes, refusal):
		return []Finding{s.unknown(ownResolver, "not checkable: the list refuses this resolver (%s)%s",
			joinFirst(codes), b.publicResolverNote())}
	case len(codes) > 0 && !anyInPrefix(codes, loopback):
		return []Finding{s.unknown("remove the list, or look for what rewrites DNS answers",
			"not checkable: it answers %s, which does not mean a listing", joinFirst(codes))}
	}
	if bad, ok := b.answersUs(ctx, s); !ok {
		return []Finding{bad}
	}
	if len(codes) == 0 {
		return []Finding{s.ok("not listed")}
	}
	return []Finding{s.fail("find and end the cause, then ask "+b.zone+
		" to remove the address; do not probe from it until then", "listed (%s)%s", joinFirst(codes),
		b.listReason(ctx, public))}
}

// answersUs checks that the list answers us at all: that its test entry is seen, and that it does not list everything.
func (b blocklist) answersUs(ctx context.Context, s subject) (Finding, bool) {
	if got := b.ask(ctx, listName(cleanTest, b.zone), dns.TypeA); got.outcome == found {
		return s.unknown("remove the list: it has shut down, or something rewrites DNS answers",
			"not checkable: it lists every address"), false
	}
	got := b.ask(ctx, listName(listedTest, b.zone), dns.TypeA)
	codes := addrsOf(got.records)
	if anyInPrefix(codes, refusal) {
		return s.unknown(ownResolver, "not checkable: the list refuses this resolver (%s)%s", joinFirst(codes),
			b.publicResolverNote()), false
	}
	if !anyInPrefix(codes, loopback) {
		return s.unknown(ownResolver+"; remove the list if it is gone",
			"not checkable: its test entry is not seen (%s)%s", got.describe(), b.publicResolverNote()), false
	}
	return Finding{}, true
}

// listReason is the list's own text about an entry.
func (b blocklist) listReason(ctx context.Context, addr netip.Addr) string {
	got := b.ask(ctx, listName(addr, b.zone), dns.TypeTXT)
	for _, rr := range got.records {
		if t, ok := rr.(*dns.TXT); ok {
			return ": " + printable(strings.Join(t.Txt, ""))
		}
	}
	return ""
}

// publicResolverNote names a public resolver among ours, if there is one.
func (b blocklist) publicResolverNote() string {
	for _, s := range b.Servers {
		for _, p := range publicResolvers {
			if s.Addr().String() == p {
				return "; " + p + " is a public resolver, which many lists block"
			}
		}
	}
	return ""
}

// listName is the name of an address in a list: octets, or nibbles of IPv6, in reverse.
func listName(addr netip.Addr, zone string) string {
	arpa, err := dns.ReverseAddr(addr.Unmap().String())
	if err != nil {
		return zone
	}
	name, _ := strings.CutSuffix(arpa, "in-addr.arpa.")
	name, _ = strings.CutSuffix(name, "ip6.arpa.")
	return name + dns.Fqdn(zone)
}

func anyInPrefix(addrs []netip.Addr, p netip.Prefix) bool {
	for _, a := range addrs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
