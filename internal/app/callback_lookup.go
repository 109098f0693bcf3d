package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"probity/engine"
	"probity/engine/dns"
)

// lookup finds the addresses of a callback's receiver. It uses the resolvers of --dns if given, else the system's
// resolver, which may know an intranet's names from the hosts file.
func (s *Service) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if len(s.flags.DNS) == 0 {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // never looked up (RFC 6761 section 6.3)
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, fact := s.node.Resolver.Addrs(ctx, host, dns.WithIPv6)
	if fact != engine.FactImplicit {
		return nil, fmt.Errorf("%s: %v", host, fact)
	}
	return addrs, nil
}
