package smtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/proxy"

	"probity/engine"
)

// DialFunc opens a TCP connection from a local address (the zero value: any) to an address, host:port.
type DialFunc func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error)

// Dialer connects to mail servers from one source address. It is a value, and safe for concurrent use.
type Dialer struct {
	Local        netip.Addr // source address; the zero value leaves it to the system
	SOCKS5       string     // host:port of a proxy that connects for us; empty for none
	AllowPrivate bool       // private, loopback and link-local targets too: for tests and the pretend internet
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
	if d.SOCKS5 == "" {
		return d.Dial(ctx, d.Local, "tcp", target)
	}
	p, err := proxy.SOCKS5("tcp", d.SOCKS5, nil, toProxy{d})
	if err != nil {
		return nil, errors.Join(errOurs, err)
	}
	cd, ok := p.(proxy.ContextDialer)
	if !ok {
		return nil, fmt.Errorf("%w: the proxy client takes no context", errOurs)
	}
	return cd.DialContext(ctx, "tcp", target)
}

// errOurs marks failures on our side of the network, errProxy those on the way to the proxy.
var (
	errOurs  = errors.New("our side failed")
	errProxy = fmt.Errorf("%w: no way to the proxy", errOurs)
)

// toProxy reaches the proxy itself; that this fails is our own trouble.
type toProxy struct{ d *Dialer }

func (p toProxy) Dial(network, address string) (net.Conn, error) {
	return p.DialContext(context.Background(), network, address)
}

func (p toProxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.d.Dial(ctx, p.d.Local, network, address)
	if err != nil {
		return nil, errors.Join(errProxy, err)
	}
	return conn, nil
}

// dialFault tells what happened to a connection that did not come about.
func dialFault(ctx context.Context, err error) Fault {
	var ne net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return internal(engine.StageConnect, "the caller gave up")
	case errors.Is(err, errProxy):
		return internal(engine.StageConnect, "the SOCKS5 proxy is not reachable")
	case ours(err):
		return internal(engine.StageConnect, "no connection can leave from here")
	case ctx.Err() != nil, errors.As(err, &ne) && ne.Timeout():
		return Fault{Event: engine.EventTimeout, Detail: "no connection in time"}
	}
	return Fault{Event: engine.EventConnectFailed, Detail: "the connection failed"}
}

// ours reports an error that has its cause on this machine.
func ours(err error) bool {
	for _, cause := range [...]error{errOurs, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOBUFS, syscall.ENOMEM, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
