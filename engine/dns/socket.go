package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// socket is one shared UDP socket. Its reader hands answers out; its writer sends what askers put into the outbox.
type socket struct {
	packets *packets
	timeout time.Duration // of a try
	wake    chan struct{} // for the writer; has room
	quit    chan struct{} // closed with the socket

	mu      sync.Mutex // guards what follows
	waiting queries
	out     outbox
	woken   bool // the writer will look into the outbox
	closed  bool
}

// readBuffer is what the system is asked to keep of answers that nobody has read yet; it gives what it may. In the usual
// buffer a few hundred small datagrams find room, and each one lost costs its domain a timeout.
const readBuffer = 1 << 20

func newSocket(conn net.PacketConn, timeout time.Duration) *socket {
	if b, ok := conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = b.SetReadBuffer(readBuffer) // a smaller one will do, with more lost
	}
	return &socket{packets: newPackets(conn), timeout: timeout, waiting: queries{byID: map[uint16]*pending{}},
		wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

// send registers a query under a random free id and has it sent. It reports false when there is none, or the socket is closed. A
// query that cannot leave is answered as one that timed out.
func (s *socket) send(p *pending, edns bool) bool {
	p.until = time.Now().Add(s.timeout)
	s.mu.Lock()
	if s.closed || !s.waiting.add(p) {
		s.mu.Unlock()
		return false
	}
	s.out.add(p, edns)
	wake := !s.woken
	s.woken = true
	s.mu.Unlock()
	if wake {
		s.wake <- struct{}{}
	}
	return true
}

// write sends what is in the outbox, and ends the tries whose time is up, until the socket is closed.
func (s *socket) write() {
	var out outbox
	var armed bool
	timer := time.NewTimer(s.timeout)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
			runtime.Gosched() // who else has a question now puts it beside this one: a system call costs more than a query
			s.mu.Lock()
			out, s.out, s.woken = s.out, out, false
			s.mu.Unlock()
			s.packets.send(&out, s.fail)
			out.reset()
			if !armed {
				armed = true
				timer.Reset(s.timeout)
			}
		case <-timer.C:
			wait, more := s.expire(time.Now())
			if armed = more; armed {
				timer.Reset(wait)
			}
		case <-s.quit:
			return
		}
	}
}

// expire answers the queries whose time is up, and says how long the next one has.
func (s *socket) expire(now time.Time) (wait time.Duration, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := s.waiting.first; p != nil; p = s.waiting.first {
		if now.Before(p.until) {
			return p.until.Sub(now), true
		}
		s.waiting.remove(p)
		p.late = true
		p.done <- answer{outcome: timedOut}
	}
	return 0, false
}

// fail answers a query that could not leave.
func (s *socket) fail(g *outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.byID[g.id] == g.p {
		s.waiting.remove(g.p)
		g.p.done <- answer{outcome: timedOut}
	}
}

// forget drops a query that nobody waits for any more.
func (s *socket) forget(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.byID[p.id] == p {
		s.waiting.remove(p)
	}
}

// claim takes the query that msg answers off the list. What matches nothing is dropped, and the true answer is waited for still.
func (s *socket) claim(msg []byte, from netip.AddrPort) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting.answered(msg, from)
	if p != nil {
		s.waiting.remove(p)
	}
	return p
}

// maxReadErrors is how many reads may fail in a row before the socket is given up.
const maxReadErrors = 64

// read delivers answers until the socket is closed or broken.
func (s *socket) read() error {
	failures := 0
	for {
		err := s.packets.receive(s.deliver)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err == nil:
			failures = 0
		default:
			if failures++; failures >= maxReadErrors {
				return fmt.Errorf("dns: read answers: %w", err)
			}
		}
	}
}

func (s *socket) deliver(msg []byte, from net.Addr) {
	if p := s.claim(msg, addrPortOf(from)); p != nil {
		p.done <- parse(msg, p.question)
	}
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
	var writers sync.WaitGroup
	for _, s := range r.sockets {
		go func() { ended <- s.read() }()
		writers.Go(s.write)
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
	writers.Wait()
	return err
}

func (r *Resolver) listen(ctx context.Context) error {
	for range r.cfg.Sockets {
		conn, err := r.cfg.ListenPacket(ctx, "udp", ":0")
		if err != nil {
			r.closeAll()
			return fmt.Errorf("dns: open a socket: %w", err)
		}
		r.sockets = append(r.sockets, newSocket(conn, r.cfg.Timeout))
	}
	return nil
}

// closeAll closes the sockets. Nothing was promised to anybody through a socket, so a failure to close it loses nothing.
func (r *Resolver) closeAll() {
	for _, s := range r.sockets {
		_ = s.packets.conn.Close()
		s.abandon()
	}
}

// abandon answers every query that is still out: nothing came in time. None is taken any more.
func (s *socket) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.quit)
	for p := s.waiting.first; p != nil; p = s.waiting.first {
		s.waiting.remove(p)
		p.done <- answer{outcome: timedOut} // has room: whoever takes a query off the list answers it, once
	}
}
