package main

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// join carries bytes both ways until both have ended.
func join(a, b net.Conn) {
	var other sync.WaitGroup
	other.Go(func() { _, _ = io.Copy(b, a); shut(b) })
	_, _ = io.Copy(a, b)
	shut(a)
	other.Wait()
}

// shut ends our side of a stream.
func shut(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// mailRelay is a SOCKS5 proxy (RFC 1928) between a prober and mail servers. It connects from the address that it was reached
// from, so that the referee sees who asks.
type mailRelay struct {
	ears   net.Listener
	refuse atomic.Bool
	all    sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls map[*mailCall]bool
}

// mailCall is one connection through the relay. Once it is dead nothing passes, and nobody is told: the other end is counted
// out when the client gives up.
type mailCall struct {
	client, server net.Conn
	dead           atomic.Bool
}

func newMailRelay(t *testing.T, at string) *mailRelay {
	r := &mailRelay{calls: map[*mailCall]bool{}}
	var err error
	r.ears, err = net.Listen("tcp", at)
	require.NoError(t, err)
	r.all.Go(r.serve)
	t.Cleanup(func() {
		_ = r.ears.Close()
		r.each(1, 0, (*mailCall).reset)
		r.all.Wait()
	})
	return r
}

// each does something to about one of every so many calls; it tells to how many.
func (r *mailRelay) each(one int, chance uint64, do func(*mailCall)) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := int(chance % uint64(one))
	for c := range r.calls {
		if i%one == 0 {
			do(c)
			n++
		}
		i++
	}
	return n
}

func (c *mailCall) die() { c.dead.Store(true) }

// reset ends a call with RST on the client's side.
func (c *mailCall) reset() {
	_ = c.client.(*net.TCPConn).SetLinger(0)
	_ = c.server.Close()
	_ = c.client.Close()
}

func (r *mailRelay) serve() {
	for {
		c, err := r.ears.Accept()
		if err != nil {
			return
		}
		r.all.Go(func() {
			defer c.Close()
			_ = r.carry(c)
		})
	}
}

func (r *mailRelay) carry(client net.Conn) error {
	in := bufio.NewReader(client)
	to, err := wanted(client, in)
	if err != nil {
		return err
	}
	if r.refuse.Load() {
		_, err := client.Write(socksRefused)
		return err
	}
	d := net.Dialer{}
	if from, ok := client.RemoteAddr().(*net.TCPAddr); ok && to.Addr().Is4() {
		d.LocalAddr = &net.TCPAddr{IP: from.IP}
	}
	server, err := d.Dial("tcp", to.String())
	if err != nil {
		_, err = client.Write(socksRefused)
		return err
	}
	defer server.Close()
	if _, err = client.Write(socksGranted); err != nil {
		return err
	}
	call := &mailCall{client: client, server: server}
	r.note(call, true)
	defer r.note(call, false)
	var replies sync.WaitGroup
	replies.Go(func() { call.pass(client, server) })
	call.pass(server, in)
	shut(server) // the client has gone: the server counts it out
	replies.Wait()
	return nil
}

func (r *mailRelay) note(c *mailCall, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there {
		r.calls[c] = true
	} else {
		delete(r.calls, c)
	}
}

// pass carries one way until its end; what comes after the call's death is heard and lost.
func (c *mailCall) pass(to net.Conn, from io.Reader) {
	b := make([]byte, 8<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !c.dead.Load() {
			if _, failed := to.Write(b[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			if !c.dead.Load() {
				shut(to)
			}
			return
		}
	}
}

// link is a cable between two parts of a cluster: streams, and datagrams where packets is set. While it is cut nothing passes,
// and nobody is told; what streams held back arrives when it heals.
type link struct {
	to      string
	ears    net.Listener
	packets net.PacketConn
	all     sync.WaitGroup
	done    chan struct{}

	mu     sync.Mutex // guards what follows
	healed chan struct{}
	conns  map[net.Conn]bool
}

func newLink(t *testing.T, at, to string, packets bool) *link {
	l := &link{to: to, done: make(chan struct{}), conns: map[net.Conn]bool{}}
	var err error
	l.ears, err = net.Listen("tcp", at)
	require.NoError(t, err)
	l.all.Go(l.serve)
	if packets {
		l.packets, err = net.ListenPacket("udp", at)
		require.NoError(t, err)
		l.all.Go(l.carryPackets)
	}
	t.Cleanup(l.close)
	return l
}

func (l *link) close() {
	close(l.done)
	_ = l.ears.Close()
	if l.packets != nil {
		_ = l.packets.Close()
	}
	l.heal()
	l.reset()
	l.all.Wait()
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed == nil {
		l.healed = make(chan struct{})
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed != nil {
		close(l.healed)
		l.healed = nil
	}
}

// reset breaks all streams.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// gate waits while the link is cut.
func (l *link) gate() {
	l.mu.Lock()
	healed := l.healed
	l.mu.Unlock()
	if healed != nil {
		select {
		case <-healed:
		case <-l.done:
		}
	}
}

func (l *link) serve() {
	for {
		c, err := l.ears.Accept()
		if err != nil {
			return
		}
		l.all.Go(func() {
			defer c.Close()
			l.gate()
			to, err := net.Dial("tcp", l.to)
			if err != nil {
				return
			}
			defer to.Close()
			l.hold(c, to, true)
			defer l.hold(c, to, false)
			join(gated{c, l}, gated{to, l})
		})
	}
}

func (l *link) hold(a, b net.Conn, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []net.Conn{a, b} {
		if there {
			l.conns[c] = true
		} else {
			delete(l.conns, c)
		}
	}
}

// gated holds back what is read while the link is cut, the end too.
type gated struct {
	net.Conn
	l *link
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.l.gate()
	return n, err
}

func (g gated) CloseWrite() error { return g.Conn.(*net.TCPConn).CloseWrite() }

func (l *link) carryPackets() {
	to, err := net.Dial("udp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, _, err := l.packets.ReadFrom(b)
		if err != nil {
			return
		}
		l.mu.Lock()
		cut := l.healed != nil
		l.mu.Unlock()
		if !cut {
			_, _ = to.Write(b[:n]) // nobody there yet: a datagram is lost
		}
	}
}

// hostPort is an address of a torture's own range of loopback.
func hostPort(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }
