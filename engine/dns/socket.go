package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// pending is a query on the wire.
type pending struct {
	question
	server *server
	id     uint16
	done   chan answer // takes one answer without waiting
	timer  *time.Timer // ends the try
}

// addrPortConn is what *net.UDPConn adds to a net.PacketConn: datagrams without an allocation each.
type addrPortConn interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error)
}

// socket is one shared UDP socket.
type socket struct {
	conn net.PacketConn
	fast addrPortConn // conn itself where it can, else nil

	mu      sync.Mutex // guards what follows
	waiting map[uint16]*pending
	closed  bool
}

// readBuffer is what the system is asked to keep of answers that nobody has read yet; it gives what it may. In the usual
// buffer a few hundred small datagrams find room, and each one lost costs its domain a timeout.
const readBuffer = 1 << 20

func newSocket(conn net.PacketConn) *socket {
	fast, _ := conn.(addrPortConn)
	if b, ok := conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = b.SetReadBuffer(readBuffer) // a smaller one will do, with more lost
	}
	return &socket{conn: conn, fast: fast, waiting: map[uint16]*pending{}}
}

// idTries bounds the search for a free id; MaxInFlight keeps three quarters of them free.
const idTries = 32

// send registers a query under a random free id and sends it. It reports false when the query cannot leave.
func (s *socket) send(p *pending, edns bool) bool {
	if !s.register(p) {
		return false
	}
	var buf [headerLen + maxName + 2 + 4 + 11]byte
	msg := appendQuery(buf[:0], p.id, p.question, edns)
	var err error
	if s.fast != nil {
		_, err = s.fast.WriteToUDPAddrPort(msg, p.server.addr)
	} else {
		_, err = s.conn.WriteTo(append([]byte(nil), msg...), p.server.udp) // the message may outlive an in-memory write
	}
	if err != nil {
		s.forget(p)
		return false
	}
	return true
}

func (s *socket) register(p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range idTries {
		if s.closed {
			return false
		}
		p.id = uint16(rand.Uint32())
		if _, taken := s.waiting[p.id]; !taken {
			s.waiting[p.id] = p
			return true
		}
	}
	return false
}

func (s *socket) forget(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[p.id] == p {
		delete(s.waiting, p.id)
	}
}

// claim takes the query that msg answers off the list: id, server and question must all be its own.
// What matches nothing is dropped, and the true answer is waited for still.
func (s *socket) claim(msg []byte, from netip.AddrPort) *pending {
	if len(msg) < headerLen {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting[binary.BigEndian.Uint16(msg)]
	if p == nil || p.server.addr != from || !answers(msg, p.question) {
		return nil
	}
	delete(s.waiting, p.id)
	return p
}

// maxReadErrors is how many reads may fail in a row before the socket is given up.
const maxReadErrors = 64

// read delivers answers until the socket is closed or broken.
func (s *socket) read() error {
	buf := make([]byte, 4096)
	failures := 0
	for {
		n, from, err := s.receive(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if failures++; failures >= maxReadErrors {
				return fmt.Errorf("dns: read answers: %w", err)
			}
			continue
		}
		failures = 0
		if p := s.claim(buf[:n], from); p != nil {
			p.done <- parse(buf[:n], p.question)
		}
	}
}

func (s *socket) receive(buf []byte) (int, netip.AddrPort, error) {
	if s.fast != nil {
		n, from, err := s.fast.ReadFromUDPAddrPort(buf)
		return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), err
	}
	n, addr, err := s.conn.ReadFrom(buf)
	if err != nil {
		return 0, netip.AddrPort{}, err
	}
	return n, addrPortOf(addr), nil
}

// addrPortOf is where a datagram came from; the zero value, which no server has, where that is not an address.
func addrPortOf(addr net.Addr) netip.AddrPort {
	var from netip.AddrPort
	if u, ok := addr.(*net.UDPAddr); ok {
		from = u.AddrPort()
	} else {
		from, _ = netip.ParseAddrPort(addr.String())
	}
	return netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
}

// pick spreads the queries over the sockets at random, which adds their ports to what a forger must guess (RFC 5452 section 9.2).
func (r *Resolver) pick() *socket { return r.sockets[rand.IntN(len(r.sockets))] }

// Run opens the sockets, reads answers until ctx ends, closes the sockets and returns when their readers have.
// It may be called once. The error is nil when ctx ended it.
func (r *Resolver) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("dns: Run was called before")
	}
	defer close(r.gone)
	if err := r.listen(ctx); err != nil {
		return err
	}
	ended := make(chan error, len(r.sockets))
	for _, s := range r.sockets {
		go func() { ended <- s.read() }()
	}
	r.ready.Store(true)
	close(r.open)
	var err error
	left := len(r.sockets)
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	r.closeAll()
	for ; left > 0; left-- {
		err = errors.Join(err, <-ended)
	}
	return err
}

func (r *Resolver) listen(ctx context.Context) error {
	for range r.cfg.Sockets {
		conn, err := r.cfg.ListenPacket(ctx, "udp", ":0")
		if err != nil {
			r.closeAll()
			return fmt.Errorf("dns: open a socket: %w", err)
		}
		r.sockets = append(r.sockets, newSocket(conn))
	}
	return nil
}

// closeAll closes the sockets. Nothing was promised to anybody through a socket, so a failure to close it loses nothing.
func (r *Resolver) closeAll() {
	for _, s := range r.sockets {
		_ = s.conn.Close()
		s.abandon()
	}
}

// abandon answers every query that is still out: nothing came in time. None is taken any more.
func (s *socket) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, p := range s.waiting {
		delete(s.waiting, id)
		p.done <- answer{outcome: timedOut} // has room: whoever takes a query off the list answers it, once
	}
}
