package sim

import (
	"fmt"
	"net"
	"net/netip"
)

// Loopback is the loopback network of this machine. It refuses every other
// address: a simulated internet must not be reachable on a real one.
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
	return fmt.Errorf("%s is not a loopback address", at)
}
