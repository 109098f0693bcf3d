package sim

import (
	"fmt"
	"net"
	"net/netip"
)

// Loopback is the Network of this machine. It refuses every address that is
// not a loopback one: a simulated internet has no business on a real one.
type Loopback struct{}

// Listen opens a TCP port.
func (Loopback) Listen(at netip.AddrPort) (net.Listener, error) {
	if !at.Addr().IsLoopback() {
		return nil, loopbackError(at)
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
}

// ListenPacket opens a UDP port.
func (Loopback) ListenPacket(at netip.AddrPort) (net.PacketConn, error) {
	if !at.Addr().IsLoopback() {
		return nil, loopbackError(at)
	}
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}

func loopbackError(at netip.AddrPort) error {
	return fmt.Errorf("%s is no loopback address", at)
}
