package baseline

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Dial connects as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// source is the address that baselines connect from. It differs from the prober's, so that the simulated internet
// counts the two separately.
var source = net.IPv4(127, 0, 0, 2)

// DialContext connects from source. If this machine does not have it (only Linux has all of 127.0.0.0/8), the system
// chooses an address.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	switch network {
	case "tcp":
		d.LocalAddr = &net.TCPAddr{IP: source}
	case "udp":
		d.LocalAddr = &net.UDPAddr{IP: source}
	}
	conn, err := d.DialContext(ctx, network, address)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return conn, err
	}
	d.LocalAddr = nil
	return d.DialContext(ctx, network, address)
}
