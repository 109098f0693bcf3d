package outward

import (
	"context"
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
	maxDialled     = 4                // addresses of a name that are tried
)

// The failures of Connect.
var (
	ErrNoName    = errors.New("the host name does not resolve")
	ErrForbidden = errors.New("the host leads to a private, loopback or reserved address; " + adviceForPrivate)
	ErrConnect   = errors.New("no connection")
)

// DialFunc opens a TCP connection from a local address (the zero value: any) to an address and port, never a name.
type DialFunc func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error)

// Config configures a Dialer. Dial and Lookup are required.
type Config struct {
	Dial   DialFunc
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Source netip.Addr     // local address of connections; zero value: the system chooses
	Allow  []netip.Prefix // private networks that may be reached, for tests and intranets
}

// Dialer connects to servers, but only to addresses that may be reached.
type Dialer struct {
	cfg   Config
	guard *ssrf.Guardian
}

// New makes a Dialer.
func New(cfg Config) *Dialer { return &Dialer{cfg: cfg, guard: newGuard(cfg.Allow)} }

// Connect opens a connection to a target.
func (d *Dialer) Connect(ctx context.Context, t *Target) (conn net.Conn, err error) {
	addrs, err := d.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs[:min(len(addrs), maxDialled)] {
		if conn, err = d.dial(ctx, netip.AddrPortFrom(addr, t.port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// addresses returns the addresses of a host that may be reached.
func (d *Dialer) addresses(ctx context.Context, t *Target) ([]netip.Addr, error) {
	found := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, done := context.WithTimeout(ctx, connectTimeout)
		defer done()
		var err error
		found, err = d.cfg.Lookup(ctx, t.Host)
		if err != nil || len(found) == 0 {
			return nil, ErrNoName
		}
	}
	var allowed []netip.Addr
	forbidden := false
	for _, a := range found {
		a = a.Unmap()
		switch {
		case !d.mayReach(a):
			forbidden = true
		case !d.cfg.Source.IsValid() || d.cfg.Source.Unmap().Is4() == a.Is4():
			allowed = append(allowed, a)
		}
	}
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case forbidden:
		return nil, ErrForbidden
	}
	return nil, fmt.Errorf("%w: the host has no address of the kind that we connect from", ErrConnect)
}

// dial connects to a checked address and checks the connection's remote address again.
func (d *Dialer) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, connectTimeout)
	defer done()
	conn, err := d.cfg.Dial(ctx, d.cfg.Source, "tcp", to.String())
	if err != nil { // its text would have the address
		var timeout net.Error
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%w: connection refused", ErrConnect)
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
			return nil, fmt.Errorf("%w: timed out", ErrConnect)
		case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
			return nil, fmt.Errorf("%w: unreachable", ErrConnect)
		}
		return nil, ErrConnect
	}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && !d.mayReach(at.Addr().Unmap()) {
		conn.Close()
		return nil, ErrForbidden
	}
	return conn, nil
}
