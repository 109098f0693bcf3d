package sim

import (
	"fmt"
	"net"
	"net/netip"
)

// PrivateNetwork is a Network of private addresses in a network namespace made for a test. Loopback addresses are
// allowed too. The caller must ensure that the prefix leads nowhere else.
type PrivateNetwork struct{ Prefix netip.Prefix }

// privatePrefixes are prefixes without addresses of the public internet (RFC 1918, RFC 6598, RFC 2544).
var privatePrefixes = [...]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("127.0.0.0/8")}

// NewPrivateNetwork makes the Network of a prefix, which must be a private one.
func NewPrivateNetwork(p netip.Prefix) (PrivateNetwork, error) {
	for _, u := range privatePrefixes {
		if u.Bits() <= p.Bits() && u.Contains(p.Addr()) {
			return PrivateNetwork{p.Masked()}, nil
		}
	}
	return PrivateNetwork{}, fmt.Errorf("network %s: a pretend internet has no business on a public one", p)
}

func (p PrivateNetwork) check(at netip.AddrPort) error {
	if at.Addr().IsLoopback() || p.Prefix.Contains(at.Addr()) {
		return nil
	}
	return fmt.Errorf("%s is not in %s", at, p.Prefix)
}

// Listen opens a TCP port.
func (p PrivateNetwork) Listen(at netip.AddrPort) (net.Listener, error) {
	if err := p.check(at); err != nil {
		return nil, err
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
}

// ListenPacket opens a UDP port.
func (p PrivateNetwork) ListenPacket(at netip.AddrPort) (net.PacketConn, error) {
	if err := p.check(at); err != nil {
		return nil, err
	}
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}
