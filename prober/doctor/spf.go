package doctor

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"blitiri.com.ar/go/spf"
	"github.com/miekg/dns"

	"probity/engine"
)

// evaluateSPF evaluates the SPF record of the MAIL FROM domain for an address (RFC 7208). The error says which
// mechanism matched, or why there is no verdict; spf.ErrMatchedAll with a pass is a record that permits the whole
// world.
func (a *audit) evaluateSPF(ctx context.Context, ip netip.Addr, sender engine.Address,
	ehlo string) (spf.Result, error) {
	return spf.CheckHostWithSender(ip.Unmap().AsSlice(), ehlo, sender.String(), spf.WithContext(ctx),
		spf.WithResolver(spfResolver{a}))
}

// spfResolver answers the evaluation from the audit's resolvers, within the audit's bounds. Failures are temporary
// errors and an empty answer is "not found", as of a net.Resolver.
type spfResolver struct{ *audit }

func (r spfResolver) records(ctx context.Context, name string, typ uint16) ([]dns.RR, error) {
	got := r.ask(ctx, name, typ)
	if got.outcome == found {
		return got.records, nil
	}
	return nil, spfError(name, got)
}

func spfError(name string, got answer) error {
	return &net.DNSError{Err: got.describe(), Name: name, IsTemporary: got.outcome == failed,
		IsNotFound: got.outcome != failed}
}

func (r spfResolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	records, err := r.records(ctx, name, dns.TypeTXT)
	var out []string
	for _, rr := range records {
		if txt, ok := rr.(*dns.TXT); ok {
			out = append(out, strings.Join(txt.Txt, ""))
		}
	}
	return out, err
}

func (r spfResolver) LookupMX(ctx context.Context, name string) ([]*net.MX, error) {
	records, err := r.records(ctx, name, dns.TypeMX)
	var out []*net.MX
	for _, rr := range records {
		if mx, ok := rr.(*dns.MX); ok {
			out = append(out, &net.MX{Host: mx.Mx, Pref: mx.Preference})
		}
	}
	return out, err
}

func (r spfResolver) LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error) {
	addrs, got := r.bothAddrs(ctx, host)
	if len(addrs) == 0 {
		return nil, spfError(host, got)
	}
	var out []net.IPAddr
	for _, addr := range addrs {
		out = append(out, net.IPAddr{IP: addr.AsSlice()})
	}
	return out, nil
}

func (r spfResolver) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	arpa, err := dns.ReverseAddr(addr)
	if err != nil {
		return nil, err
	}
	records, err := r.records(ctx, arpa, dns.TypePTR)
	return pointers(records), err
}
