package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// The bounds of a network.
const (
	maxBacklog   = 512      // connections of a listener that wait to be accepted
	maxBuffer    = 64 << 10 // unread bytes of one direction of a connection
	maxDatagrams = 4096     // unread datagrams of a socket; more are lost
	firstPort    = 1 << 15  // ephemeral ports are firstPort to lastPort
	lastPort     = 1<<16 - 1
)

// Network is an in-memory network with TCP-like connections, buffered both ways, and
// UDP-like sockets.
type Network struct {
	mu        sync.Mutex // guards what follows
	listeners map[netip.AddrPort]*listener
	sockets   map[netip.AddrPort]*socket
	port      uint16 // the last ephemeral port assigned
}

// New makes an empty network.
func New() *Network {
	return &Network{
		listeners: map[netip.AddrPort]*listener{},
		sockets:   map[netip.AddrPort]*socket{},
		port:      lastPort,
	}
}

// Listen binds a stream address. Port 0 takes an ephemeral port.
func (n *Network) Listen(addr netip.AddrPort) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr.Port() == 0 {
		addr = n.freePort(addr.Addr())
	}
	if n.listeners[addr] != nil {
		return nil, opError("listen", "tcp", addr, syscall.EADDRINUSE)
	}
	ln := &listener{network: n, addr: addr, backlog: make(chan *Conn, maxBacklog), closed: make(chan struct{})}
	n.listeners[addr] = ln
	return ln, nil
}

// ListenPacket binds a datagram address. Port 0 takes an ephemeral port.
func (n *Network) ListenPacket(addr netip.AddrPort) (net.PacketConn, error) {
	s, err := n.bind(addr, netip.AddrPort{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (n *Network) bind(addr, peer netip.AddrPort) (*socket, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr.Port() == 0 {
		addr = n.freePort(addr.Addr())
	}
	if n.sockets[addr] != nil {
		return nil, opError("listen", "udp", addr, syscall.EADDRINUSE)
	}
	s := newSocket(n, addr, peer)
	n.sockets[addr] = s
	return s, nil
}

// freePort finds a port that neither a listener nor a socket has. The caller holds n.mu.
func (n *Network) freePort(addr netip.Addr) netip.AddrPort {
	for {
		if n.port == lastPort {
			n.port = firstPort - 1
		}
		n.port++
		free := netip.AddrPortFrom(addr, n.port)
		if n.listeners[free] == nil && n.sockets[free] == nil {
			return free
		}
	}
}

// Dial connects from 127.0.0.1, or from ::1 to an IPv6 address. Its signature is
// that of net.Dialer.DialContext.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dial(ctx, netip.Addr{}, network, address)
}

// DialFrom returns a Dial from another source address.
func (n *Network) DialFrom(source netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.dial(ctx, source, network, address)
	}
}

func (n *Network) dial(ctx context.Context, source netip.Addr, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", network, err)
	}
	switch {
	case source.IsValid():
	case to.Addr().Is4():
		source = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		source = netip.IPv6Loopback()
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
		return n.dialStream(ctx, source, to)
	case "udp", "udp4", "udp6":
		s, err := n.bind(netip.AddrPortFrom(source, 0), to)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, opError("dial", network, to, net.UnknownNetworkError(network))
}

// dialStream puts one end of a new connection into the listener's backlog. As in a
// kernel it does not wait for Accept, only for room in the backlog.
func (n *Network) dialStream(ctx context.Context, source netip.Addr, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	ln := n.listeners[to]
	from := n.freePort(source)
	n.mu.Unlock()
	if ln == nil {
		return nil, opError("dial", "tcp", to, syscall.ECONNREFUSED)
	}
	near, far := Pair(from, to)
	select {
	case ln.backlog <- far:
		if ln.isClosed() {
			ln.resetBacklog()
		}
		return near, nil
	case <-ln.closed:
		return nil, opError("dial", "tcp", to, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, opError("dial", "tcp", to, contextError(ctx))
	}
}

// contextError is the error of the real dialer: a deadline is a timeout.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

func opError(op, network string, addr netip.AddrPort, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: net.TCPAddrFromAddrPort(addr), Err: err}
}

// listener is a bound stream address.
type listener struct {
	network *Network
	addr    netip.AddrPort
	backlog chan *Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, opError("accept", "tcp", l.addr, net.ErrClosed)
	default:
	}
	select {
	case conn := <-l.backlog:
		return conn, nil
	case <-l.closed:
		return nil, opError("accept", "tcp", l.addr, net.ErrClosed)
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.addr)
		l.network.mu.Unlock()
		close(l.closed)
		l.resetBacklog()
	})
	return nil
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// resetBacklog resets the connections that will not be accepted.
func (l *listener) resetBacklog() {
	for {
		select {
		case conn := <-l.backlog:
			_ = conn.SetLinger(0)
			_ = conn.Close()
		default:
			return
		}
	}
}

// deadlineCond is a condition variable with a deadline. It uses the lock of its owner.
type deadlineCond struct {
	cond     *sync.Cond
	deadline time.Time
	timer    *time.Timer
}

func newDeadlineCond(l sync.Locker) deadlineCond { return deadlineCond{cond: sync.NewCond(l)} }

// set moves the deadline. The caller holds the lock.
func (dc *deadlineCond) set(t time.Time) {
	dc.deadline = t
	dc.cond.Broadcast()
}

func (dc *deadlineCond) expired() bool {
	return !dc.deadline.IsZero() && !time.Now().Before(dc.deadline)
}

// wait waits for a broadcast or the deadline, and may return for neither. The
// caller holds the lock, as for sync.Cond. The timer runs only during a wait.
func (dc *deadlineCond) wait() {
	if dc.deadline.IsZero() {
		dc.cond.Wait()
		return
	}
	if dc.timer == nil {
		dc.timer = time.AfterFunc(time.Until(dc.deadline), dc.wake)
	} else {
		dc.timer.Reset(time.Until(dc.deadline))
	}
	dc.cond.Wait()
	dc.timer.Stop()
}

// wake takes the lock first, so that it cannot come between a check and its wait.
func (dc *deadlineCond) wake() {
	dc.cond.L.Lock()
	defer dc.cond.L.Unlock()
	dc.cond.Broadcast()
}
