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
	SOCKS5       Proxy      // connects through this proxy; the zero value for none
	AllowPrivate bool       // allows private, loopback and link-local targets: for tests and the simulated internet
	Dial         DialFunc
}

// DialContext connects to exactly the address that it checks: no name is resolved in between. A refused target is
// engine.EventRefusedHost; an unreachable one EventConnectFailed or EventTimeout; a failure on our side (no such source
// address, no file descriptor left, no such proxy) EventInternal, which says nothing about the server.
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
	_, err = cd.DialContext(ctx, "tcp", target)
	switch {
	case err == nil:
		// as it was dialled: a socket can be polled, half-closed and reset, a wrapper cannot
		return viaProxy.conn.Conn, nil
	case viaProxy.conn != nil && !viaProxy.conn.requested.Load():
		err = errors.Join(errProxyRefused, err) // it says nothing about the target
	}
	return nil, err
}

// errLocal marks failures on our side of the network, errProxy those on the way to the proxy.
var (
	errLocal = errors.New("our side failed")
	errProxy = fmt.Errorf("%w: no way to the proxy", errLocal)
	// errProxyRefused marks a connection to the proxy that ended before the target was requested.
	errProxyRefused = fmt.Errorf("%w: the proxy does not let us ask", errLocal)
)

// proxyDialer connects to the proxy itself; its failure is a failure on our side.
type proxyDialer struct {
	d    *Dialer
	conn *proxyConn // once it is connected
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

// proxyConn records that the target was requested. A failure before that, for example a wrong password, says nothing
// about the target.
type proxyConn struct {
	net.Conn
	requested atomic.Bool
}

// A request is longer than a greeting and begins with the same version; user and password begin with another one (RFC
// 1928 sections 3 and 4, RFC 1929 section 2).
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

// dialFault is the fault of a failed connection.
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

// isLocalFailure reports whether err has its cause on this machine.
func isLocalFailure(err error) bool {
	for _, cause := range [...]error{errLocal, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EMFILE,
		syscall.ENFILE,
		syscall.ENOBUFS, syscall.ENOMEM, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
