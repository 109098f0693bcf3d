package bench

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// baselineSource is where baselines come from: another loopback address than the prober's, so that the simulated internet keeps
// the two apart.
var baselineSource = net.IPv4(127, 0, 0, 2)

// BaselineDial connects from baselineSource. Where this machine has no such address (only Linux has all of 127.0.0.0/8), the
// system chooses one.
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
