package bench

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// floorSource is where floors come from: another loopback address than the prober's, so that the pretend internet keeps
// the two apart.
var floorSource = net.IPv4(127, 0, 0, 2)

// FloorDial connects from floorSource. Where this machine has no such address (only Linux has all of 127.0.0.0/8), the
// system chooses one.
func FloorDial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	switch network {
	case "tcp":
		d.LocalAddr = &net.TCPAddr{IP: floorSource}
	case "udp":
		d.LocalAddr = &net.UDPAddr{IP: floorSource}
	}
	conn, err := d.DialContext(ctx, network, address)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return conn, err
	}
	d.LocalAddr = nil
	return d.DialContext(ctx, network, address)
}
