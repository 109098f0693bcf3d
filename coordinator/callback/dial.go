package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	connectTimeout = 10 * time.Second // for a lookup, and for a connection to one address
	tlsTimeout     = 15 * time.Second
	maxDialled     = 4 // addresses of a name that are tried

	// unsentBytes bounds the system's send buffer. The 15 s for an answer begin once the system has the last byte; they
	// must not pass while megabytes are still in transit to a slow receiver.
	unsentBytes = 256 << 10
)

// dialer connects to receivers, but only to addresses that callbacks may be sent to.
type dialer struct {
	open   DialFunc
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	source netip.Addr
	roots  *x509.CertPool
	guard  *ssrf.Guardian
}

// receiverConn is a connection to a receiver. Conn carries HTTP; raw sets write timeouts and is closed at the end.
type receiverConn struct {
	net.Conn
	raw *timedConn
}

// connect opens a connection to a receiver, with TLS and a verified certificate if the URL is https. Its errors are
// those of an attempt.
func (d *dialer) connect(ctx context.Context, t *target) (*receiverConn, error) {
	addrs, err := d.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	for _, addr := range addrs[:min(len(addrs), maxDialled)] {
		if conn, err = d.dial(ctx, netip.AddrPortFrom(addr, t.port)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if sized, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = sized.SetWriteBuffer(unsentBytes) // a hint only
	}
	raw := &timedConn{Conn: conn}
	if !t.secure {
		return &receiverConn{Conn: raw, raw: raw}, nil
	}
	secured := tls.Client(raw, &tls.Config{
		ServerName: t.host, RootCAs: d.roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	ctx, done := context.WithTimeout(ctx, tlsTimeout)
	defer done()
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, fmt.Errorf("%w: %w", errTLS, bad)
		}
		return nil, errTLS
	}
	return &receiverConn{Conn: secured, raw: raw}, nil
}

// addresses returns the addresses of a host that callbacks may be sent to.
func (d *dialer) addresses(ctx context.Context, t *target) ([]netip.Addr, error) {
	found := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, done := context.WithTimeout(ctx, connectTimeout)
		defer done()
		var err error
		found, err = d.lookup(ctx, t.host)
		if err != nil || len(found) == 0 {
			return nil, errNoName
		}
	}
	var allowed []netip.Addr
	forbidden := false
	for _, a := range found {
		a = a.Unmap()
		switch {
		case !d.mayReach(a):
			forbidden = true
		case !d.source.IsValid() || d.source.Unmap().Is4() == a.Is4():
			allowed = append(allowed, a)
		}
	}
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case forbidden:
		return nil, errForbidden
	}
	return nil, fmt.Errorf("%w: the host has no address of the kind that callbacks leave from", errConnect)
}

// dial connects to a checked address and checks the connection's remote address again.
func (d *dialer) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, connectTimeout)
	defer done()
	conn, err := d.open(ctx, d.source, "tcp", to.String())
	if err != nil { // its text would have the address
		var timeout net.Error
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%w: connection refused", errConnect)
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
			return nil, fmt.Errorf("%w: timed out", errConnect)
		case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
			return nil, fmt.Errorf("%w: unreachable", errConnect)
		}
		return nil, errConnect
	}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && !d.mayReach(at.Addr().Unmap()) {
		conn.Close()
		return nil, errForbidden
	}
	return conn, nil
}
