package smtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/proxy"

	"probity/engine"
)

// DialFunc opens a TCP connection from a local address (the zero value: any) to an address, host:port.
type DialFunc func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error)

// Dialer connects to mail servers from one source address. It is a value, and safe for concurrent use.
type Dialer struct {
	Local        netip.Addr // source address; the zero value leaves it to the system
	SOCKS5       Proxy      // connects for us; the zero value for none
	AllowPrivate bool       // private, loopback and link-local targets too: for tests and the simulated internet
	Dial         DialFunc
}

// DialContext connects to the very address that was checked: there is no name that could be resolved to another in between.
// A refused target is engine.EventRefusedHost; what could not be reached EventConnectFailed or EventTimeout; and where our own
// side failed (no such source address, no file left, no such proxy) EventInternal, which says nothing about the server.
func (d *Dialer) DialContext(ctx context.Context, target netip.AddrPort) (net.Conn, Fault) {
	class := ClassOf(target.Addr())
	if class == Bogus || class == Private && !d.AllowPrivate || target.Port() == 0 {
		return nil, Fault{Event: engine.EventRefusedHost, Detail: "the address is not a public one"}
	}
	conn, err := d.dial(ctx, netip.AddrPortFrom(target.Addr().Unmap(), target.Port()).String())
	if err != nil {
		return nil, dialFault(ctx, err)
	}
	return conn, Fault{}
}

func (d *Dialer) dial(ctx context.Context, target string) (net.Conn, error) {
	if d.SOCKS5.Addr == "" {
		return d.Dial(ctx, d.Local, "tcp", target)
	}
	var auth *proxy.Auth
	if d.SOCKS5.user != "" {
		auth = &proxy.Auth{User: d.SOCKS5.user, Password: d.SOCKS5.password}
	}
	viaProxy := &proxyDialer{d: d}
	p, err := proxy.SOCKS5("tcp", d.SOCKS5.Addr, auth, viaProxy)
	if err != nil {
		return nil, errors.Join(errLocal, err)
	}
	cd, ok := p.(proxy.ContextDialer)
	if !ok {
		return nil, fmt.Errorf("%w: the proxy client takes no context", errLocal)
	}
	conn, err := cd.DialContext(ctx, "tcp", target)
	if err != nil && viaProxy.conn != nil && !viaProxy.conn.requested.Load() {
		err = errors.Join(errProxyRefused, err) // the target has no part in it
	}
	return conn, err
}

// errLocal marks failures on our side of the network, errProxy those on the way to the proxy.
var (
	errLocal = errors.New("our side failed")
	errProxy = fmt.Errorf("%w: no way to the proxy", errLocal)
	// errProxyRefused marks the end of a connection to the proxy before it was asked for the target.
	errProxyRefused = fmt.Errorf("%w: the proxy does not let us ask", errLocal)
)

// proxyDialer reaches the proxy itself; that this fails is our own trouble.
type proxyDialer struct {
	d    *Dialer
	conn *proxyConn // once it is reached
}

func (p *proxyDialer) Dial(network, address string) (net.Conn, error) {
	return p.DialContext(context.Background(), network, address)
}

func (p *proxyDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.d.Dial(ctx, p.d.Local, network, address)
	if err != nil {
		return nil, errors.Join(errProxy, err)
	}
	p.conn = &proxyConn{Conn: conn}
	return p.conn, nil
}

// proxyConn notes that the proxy was asked for the target. What fails before, as a password that it does not take, says nothing of that.
type proxyConn struct {
	net.Conn
	requested atomic.Bool
}

// A request is longer than a greeting, and begins with the same version; a user and a password begin with another (RFC 1928 sections 3
// and 4, RFC 1929 section 2).
const (
	socksVersion    = 5
	minSOCKSRequest = 4 + 4 + 2 // an IPv4 address and its port
)

func (c *proxyConn) Write(b []byte) (int, error) {
	if !c.requested.Load() && len(b) >= minSOCKSRequest && b[0] == socksVersion {
		c.requested.Store(true)
	}
	return c.Conn.Write(b)
}

// dialFault tells what happened to a connection that did not come about.
func dialFault(ctx context.Context, err error) Fault {
	var ne net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ourFault(engine.StageConnect, "the caller gave up")
	case errors.Is(err, errProxy):
		return ourFault(engine.StageConnect, "the SOCKS5 proxy is not reachable")
	case errors.Is(err, errProxyRefused):
		return ourFault(engine.StageConnect, "the SOCKS5 proxy does not let us in: check its user and password")
	case isLocalFailure(err):
		return ourFault(engine.StageConnect, "no connection can leave from here")
	case ctx.Err() != nil, errors.As(err, &ne) && ne.Timeout():
		return Fault{Event: engine.EventTimeout, Detail: "no connection in time"}
	}
	return Fault{Event: engine.EventConnectFailed, Detail: "the connection failed"}
}

// isLocalFailure reports an error that has its cause on this machine.
func isLocalFailure(err error) bool {
	for _, cause := range [...]error{errLocal, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOBUFS, syscall.ENOMEM, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
