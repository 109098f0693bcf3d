package bench

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// hostResolver looks up the addresses of hosts at a name server, each once.
type hostResolver struct {
	dial   Dial
	server netip.AddrPort
	known  map[string]netip.Addr
}

// lookup returns the first IPv4 address of a host.
func (hr *hostResolver) lookup(ctx context.Context, host string) (netip.Addr, error) {
	if a, ok := hr.known[host]; ok {
		return a, nil
	}
	a, err := hr.query(ctx, host)
	if err != nil {
		return a, fmt.Errorf("%s: %w", host, err)
	}
	if hr.known == nil {
		hr.known = map[string]netip.Addr{}
	}
	hr.known[host] = a
	return a, nil
}

func (hr *hostResolver) query(ctx context.Context, host string) (netip.Addr, error) {
	conn, err := hr.dial(ctx, "udp", hr.server.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	question := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA)
	answer, _, err := new(dns.Client).ExchangeWithConnContext(ctx, question, &dns.Conn{Conn: conn})
	if err != nil {
		return netip.Addr{}, err
	}
	for _, rr := range answer.Answer {
		if a, ok := rr.(*dns.A); ok {
			if addr, ok := netip.AddrFromSlice(a.A.To4()); ok {
				return addr, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no address in %s", dns.RcodeToString[answer.Rcode])
}
