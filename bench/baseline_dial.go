package bench

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// baselineSource is the source address of baselines. It differs from the prober's, so that the simulated internet counts the two
// separately.
var baselineSource = net.IPv4(127, 0, 0, 2)

// BaselineDial connects from baselineSource. If this machine does not have it (only Linux has all of 127.0.0.0/8), the system
// chooses an address.
func BaselineDial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	switch network {
	case "tcp":
		d.LocalAddr = &net.TCPAddr{IP: baselineSource}
	case "udp":
		d.LocalAddr = &net.UDPAddr{IP: baselineSource}
	}
	conn, err := d.DialContext(ctx, network, address)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return conn, err
	}
	d.LocalAddr = nil
	return d.DialContext(ctx, network, address)
}
