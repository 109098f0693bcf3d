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
	"sync/atomic"
	"time"
)

// socket is one shared UDP socket. Its reader hands answers out; its writer sends what callers put into the send queue.
type socket struct {
	packets *packets
	timeout time.Duration // of a try
	burst   int           // fresh queries at one time
	sent    *atomic.Int64 // counts the queries
	wake    chan struct{} // for the writer; buffered
	quit    chan struct{} // closed with the socket
	reply   reply         // of the reader

	mu        sync.Mutex // guards what follows
	waiting   queries
	delayed   list // queries over the burst, not sent yet; at most MaxInFlight
	queue     sendQueue
	packer    *queryPacker
	lastReply time.Time // when the last answer arrived
	woken     bool      // the writer has been woken and will empty the send queue
	closed    bool
}

// readBuffer is the receive buffer that is requested from the system, which may give less. The default buffer holds a
// few hundred small datagrams, and each lost one costs its domain a timeout.
const readBuffer = 1 << 20

// A server's buffer is rarely larger, and a query that it loses delays its domain until the end of the try. So no more
// are sent at one time than fit there. A server that answers is assumed to have read a query after replyWindow, another
// one after silentWindow. Cancelled queries do not count: a cancelled job may be followed by one burst too many.
const (
	burst        = 240                    // fresh queries of all sockets
	replyWindow  = 20 * time.Millisecond  // for a server that answered something within two of them
	silentWindow = 200 * time.Millisecond // for one that did not
)

func newSocket(conn net.PacketConn, timeout time.Duration, share int, sent *atomic.Int64) *socket {
	if b, ok := conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = b.SetReadBuffer(readBuffer) // a smaller one works too, with more losses
	}
	return &socket{packets: newPackets(conn), timeout: timeout, burst: share, sent: sent,
		waiting: queries{byID: map[uint16]*pending{}},
		wake:    make(chan struct{}, 1), quit: make(chan struct{}), packer: newQueryPacker()}
}

// send queues a query, to be sent now or when the burst allows it. It returns false if no id is free or the socket is
// closed. A query that cannot be sent is answered as timed out.
func (s *socket) send(p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.waiting.fresh < s.burst {
		return s.sendNow(p)
	}
	s.delayed.push(p)
	s.wakeWriter()
	return true
}

// sendNow registers a query under a random free id and puts it into the send queue; false if no id is free. s.mu is
// held, as for sendDelayed and wakeWriter.
func (s *socket) sendNow(p *pending) bool {
	p.until = time.Now().Add(s.timeout)
	if !s.waiting.add(p) {
		return false
	}
	s.queue.add(p, s.packer)
	s.sent.Add(1)
	s.wakeWriter()
	return true
}

// sendDelayed sends delayed queries, as far as the burst allows.
func (s *socket) sendDelayed(now time.Time) {
	if s.delayed.first == nil {
		return
	}
	patience := silentWindow
	if now.Sub(s.lastReply) <= 2*replyWindow {
		patience = replyWindow
	}
	s.waiting.ageOut(now.Add(s.timeout - patience))
	for s.delayed.first != nil && s.waiting.fresh < s.burst {
		p := s.delayed.first
		s.delayed.drop(p)
		if !s.sendNow(p) {
			p.done <- answer{outcome: timedOut}
		}
	}
}

// wakeWriter wakes the writer, if it was not woken yet.
func (s *socket) wakeWriter() {
	if !s.woken && !s.closed {
		s.woken = true
		s.wake <- struct{}{} // does not block: the writer drained it before it cleared woken
	}
}

// write sends the send queue, expires tries, and sends delayed queries, until the socket is closed.
func (s *socket) write() {
	var out sendQueue
	var due time.Time // when the timer fires; zero if it is stopped
	timer := time.NewTimer(s.timeout)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
			runtime.Gosched() // lets other callers queue their queries first: a system call costs more than a query
			s.mu.Lock()
			out, s.queue, s.woken = s.queue, out, false
			s.mu.Unlock()
			s.packets.send(&out, s.fail)
			out.reset()
		case <-timer.C:
			due = time.Time{}
		case <-s.quit:
			return
		}
		now := time.Now()
		if next := s.expire(now); !next.IsZero() && (due.IsZero() || next.Before(due)) {
			due = next
			timer.Reset(next.Sub(now))
		}
	}
}

// expire answers the queries whose deadline has passed, sends delayed ones, and returns when to run again; the zero
// time for never.
func (s *socket) expire(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := s.waiting.first; p != nil && !now.Before(p.until); p = s.waiting.first {
		s.waiting.remove(p)
		p.late = true
		p.done <- answer{outcome: timedOut}
	}
	s.sendDelayed(now)
	switch {
	case s.waiting.first == nil:
		return time.Time{}
	case s.delayed.first != nil:
		return now.Add(replyWindow)
	}
	return s.waiting.first.until
}

// fail answers a query that could not be sent.
func (s *socket) fail(g *queuedQuery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.byID[g.id] == g.p {
		s.waiting.remove(g.p)
		g.p.done <- answer{outcome: timedOut}
		s.sendDelayed(time.Now())
	}
}

// cancel drops a query that no caller waits for any more.
func (s *socket) cancel(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p.in {
	case &s.waiting.list:
		s.waiting.remove(p)
		s.sendDelayed(time.Now())
	case &s.delayed:
		s.delayed.drop(p)
	}
}

// claim removes the query that a reply answers from the list. A reply that matches none is dropped; the query goes on
// waiting.
func (s *socket) claim(r *reply, from netip.AddrPort) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting.match(r, from)
	if p != nil {
		s.waiting.remove(p)
		s.lastReply = time.Now()
		s.sendDelayed(s.lastReply)
	}
	return p
}

// maxReadErrors is how many reads may fail in a row before the socket is given up.
const maxReadErrors = 64

// read delivers answers until the socket is closed or broken.
func (s *socket) read() error {
	failures := 0
	for {
		err := s.packets.receive(s.deliverReply)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err == nil:
			failures = 0
		default:
			failures++
			if failures >= maxReadErrors {
				return fmt.Errorf("dns: read answers: %w", err)
			}
		}
	}
}

func (s *socket) deliverReply(msg []byte, from net.Addr) {
	if !s.reply.read(msg) {
		return
	}
	if p := s.claim(&s.reply, addrPortOf(from)); p != nil {
		p.done <- s.reply.parse(p.question)
	}
}

// addrPortOf is the source of a datagram; the zero value, which no server has, if that is not an address.
func addrPortOf(addr net.Addr) netip.AddrPort {
	var from netip.AddrPort
	if u, ok := addr.(*net.UDPAddr); ok {
		from = u.AddrPort()
	} else {
		from, _ = netip.ParseAddrPort(addr.String())
	}
	return netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
}

// pick spreads the queries over the sockets at random, which adds their ports to what a forger must guess (RFC 5452
// section 9.2).
func (r *Resolver) pick() *socket { return r.sockets[rand.IntN(len(r.sockets))] }

// Run opens the sockets, reads answers until ctx ends, closes the sockets and returns when their readers have.
// It may be called once. The error is nil when ctx ended it.
func (r *Resolver) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("dns: Run was called before")
	}
	defer close(r.stopped)
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
		r.sockets = append(r.sockets, newSocket(conn, r.cfg.Timeout, burst/r.cfg.Sockets, &r.counts.queries))
	}
	return nil
}

// closeAll closes the sockets and answers their queries. A failure to close a socket loses nothing.
func (r *Resolver) closeAll() {
	for _, s := range r.sockets {
		_ = s.packets.conn.Close()
		s.failPending()
	}
}

// failPending answers every pending query as timed out. The socket takes no more queries.
func (s *socket) failPending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.quit)
	for p := s.waiting.first; p != nil; p = s.waiting.first {
		s.waiting.remove(p)
		// does not block: only the code that removes a query from a list answers it, once
		p.done <- answer{outcome: timedOut}
	}
	for p := s.delayed.first; p != nil; p = s.delayed.first {
		s.delayed.drop(p)
		p.done <- answer{outcome: timedOut}
	}
}
