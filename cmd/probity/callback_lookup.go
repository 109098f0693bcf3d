package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"probity/engine"
)

// lookup finds the addresses of a callback's receiver: with the resolvers of --dns where they are given, as everything else
// that is looked up, else as this machine does, whose hosts file may know an intranet's names.
func (s *service) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if len(s.cmd.DNS) == 0 {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // never asked for (RFC 6761 section 6.3)
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, fact := s.node.resolver.Addrs(ctx, host, true)
	if fact != engine.FactImplicit {
		return nil, fmt.Errorf("%s: %v", host, fact)
	}
	return addrs, nil
}
