package memnet

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// datagram is one unread packet.
type datagram struct {
	from netip.AddrPort
	data []byte
}

// socket is a bound datagram socket; with a peer it is connected. It is both
// net.PacketConn and net.Conn, like net.UDPConn.
type socket struct {
	network *Network
	local   netip.AddrPort
	peer    netip.AddrPort // zero when not connected

	mu      sync.Mutex // guards what follows
	queue   []datagram
	closed  bool
	readers deadlineCond
}

func newSocket(n *Network, local, peer netip.AddrPort) *socket {
	s := &socket{network: n, local: local, peer: peer}
	s.readers = newDeadlineCond(&s.mu)
	return s
}

// receive reads one datagram; bytes that do not fit into b are lost.
func (s *socket) receive(b []byte) (int, netip.AddrPort, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, netip.AddrPort{}, s.error("read", net.ErrClosed)
		case s.readers.expired():
			return 0, netip.AddrPort{}, s.error("read", os.ErrDeadlineExceeded)
		case len(s.queue) > 0:
			d := s.queue[0]
			s.queue = s.queue[1:]
			return copy(b, d.data), d.from, nil
		}
		s.readers.wait()
	}
}

// deliver queues one datagram, or drops it if the queue is full or the socket is
// connected to another address.
func (s *socket) deliver(d datagram) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) >= maxDatagrams || s.peer.IsValid() && s.peer != d.from {
		return
	}
	s.queue = append(s.queue, d)
	s.readers.cond.Broadcast()
}

// send delivers a copy of b. If the address is unbound, a connected socket gets an
// error, as from ICMP on a loopback; others do not.
func (s *socket) send(b []byte, to netip.AddrPort) (int, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return 0, s.error("write", net.ErrClosed)
	}
	s.network.mu.Lock()
	target := s.network.sockets[to]
	s.network.mu.Unlock()
	switch {
	case target != nil:
		target.deliver(datagram{from: s.local, data: append([]byte(nil), b...)})
	case s.peer.IsValid():
		return 0, s.error("write", syscall.ECONNREFUSED)
	}
	return len(b), nil
}

func (s *socket) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.receive(b)
	if err != nil {
		return 0, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

func (s *socket) WriteTo(b []byte, addr net.Addr) (int, error) {
	if udp, ok := addr.(*net.UDPAddr); ok {
		to := udp.AddrPort()
		return s.send(b, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	}
	to, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return 0, s.error("write", err)
	}
	return s.send(b, to)
}

func (s *socket) Read(b []byte) (int, error) {
	n, _, err := s.receive(b)
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	if !s.peer.IsValid() {
		return 0, s.error("write", syscall.EDESTADDRREQ)
	}
	return s.send(b, s.peer)
}

func (s *socket) Close() error {
	s.network.mu.Lock()
	if s.network.sockets[s.local] == s {
		delete(s.network.sockets, s.local)
	}
	s.network.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue = true, nil
	s.readers.cond.Broadcast()
	return nil
}

func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.local) }

// RemoteAddr is nil for a socket without a peer, as it is for a net.UDPConn.
func (s *socket) RemoteAddr() net.Addr {
	if !s.peer.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(s.peer)
}

func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers.set(t)
	return nil
}

// SetWriteDeadline does nothing: sending never waits.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
