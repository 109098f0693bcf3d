package service_test

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

// pipeConns copies bytes both ways until both have ended.
func pipeConns(a, b net.Conn) {
	var other sync.WaitGroup
	other.Go(func() { _, _ = io.Copy(b, a); closeWrite(b) })
	_, _ = io.Copy(a, b)
	closeWrite(a)
	other.Wait()
}

// closeWrite ends our side of a stream.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// mailRelay is a SOCKS5 proxy (RFC 1928) between a prober and mail servers. It connects from the client's address, so
// that the referee sees the source.
type mailRelay struct {
	listener net.Listener
	refuse   atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex // guards calls
	conns map[*relayedConn]bool
}

// relayedConn is one connection through the relay. When it is dead nothing passes, and no side notices: the other end
// is closed when the client gives up.
type relayedConn struct {
	client, server net.Conn
	silent         atomic.Bool
}

func newMailRelay(t *testing.T, at string) *mailRelay {
	r := &mailRelay{conns: map[*relayedConn]bool{}}
	var err error
	r.listener, err = net.Listen("tcp", at)
	require.NoError(t, err)
	r.wg.Go(r.serve)
	t.Cleanup(func() {
		_ = r.listener.Close()
		r.eachConn(1, 0, (*relayedConn).reset)
		r.wg.Wait()
	})
	return r
}

// eachConn does something to about one of every so many connections; it returns how many.
func (r *mailRelay) eachConn(one int, chance uint64, do func(*relayedConn)) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := int(chance % uint64(one))
	for c := range r.conns {
		if i%one == 0 {
			do(c)
			n++
		}
		i++
	}
	return n
}

func (c *relayedConn) goSilent() { c.silent.Store(true) }

// reset ends a connection with RST on the client's side.
func (c *relayedConn) reset() {
	_ = c.client.(*net.TCPConn).SetLinger(0)
	_ = c.server.Close()
	_ = c.client.Close()
}

func (r *mailRelay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			defer c.Close()
			_ = r.relay(c)
		})
	}
}

func (r *mailRelay) relay(client net.Conn) error {
	in := bufio.NewReader(client)
	to, err := readSOCKSRequest(client, in)
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
	call := &relayedConn{client: client, server: server}
	r.track(call, true)
	defer r.track(call, false)
	var replies sync.WaitGroup
	replies.Go(func() { call.forward(client, server) })
	call.forward(server, in)
	closeWrite(server) // the client has gone away: the server no longer counts it
	replies.Wait()
	return nil
}

func (r *mailRelay) track(c *relayedConn, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there {
		r.conns[c] = true
	} else {
		delete(r.conns, c)
	}
}

// forward copies one way until its end; data after the connection is dead is read and dropped.
func (c *relayedConn) forward(to net.Conn, from io.Reader) {
	b := make([]byte, 8<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !c.silent.Load() {
			if _, failed := to.Write(b[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			if !c.silent.Load() {
				closeWrite(to)
			}
			return
		}
	}
}

// link is a link between two parts of a cluster: streams, and datagrams where packets is set. While it is cut nothing
// passes and no side notices; data that streams held back arrives when it heals.
type link struct {
	to       string
	listener net.Listener
	packets  net.PacketConn
	wg       sync.WaitGroup
	done     chan struct{}

	mu     sync.Mutex // guards what follows
	healed chan struct{}
	conns  map[net.Conn]bool
}

func newLink(t *testing.T, at, to string, packets bool) *link {
	l := &link{to: to, done: make(chan struct{}), conns: map[net.Conn]bool{}}
	var err error
	l.listener, err = net.Listen("tcp", at)
	require.NoError(t, err)
	l.wg.Go(l.serve)
	if packets {
		l.packets, err = net.ListenPacket("udp", at)
		require.NoError(t, err)
		l.wg.Go(l.relayPackets)
	}
	t.Cleanup(l.close)
	return l
}

func (l *link) close() {
	close(l.done)
	_ = l.listener.Close()
	if l.packets != nil {
		_ = l.packets.Close()
	}
	l.heal()
	l.reset()
	l.wg.Wait()
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

// waitHealed waits while the link is cut.
func (l *link) waitHealed() {
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
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() {
			defer c.Close()
			l.waitHealed()
			to, err := net.Dial("tcp", l.to)
			if err != nil {
				return
			}
			defer to.Close()
			l.track(c, to, true)
			defer l.track(c, to, false)
			pipeConns(gatedConn{c, l}, gatedConn{to, l})
		})
	}
}

func (l *link) track(a, b net.Conn, there bool) {
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

// gatedConn holds back what is read while the link is cut, the end too.
type gatedConn struct {
	net.Conn
	link *link
}

func (g gatedConn) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.link.waitHealed()
	return n, err
}

func (g gatedConn) CloseWrite() error { return g.Conn.(*net.TCPConn).CloseWrite() }

func (l *link) relayPackets() {
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
			_, _ = to.Write(b[:n]) // without a listener a datagram is lost
		}
	}
}

// hostPort is an address of this test's own loopback range.
func hostPort(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }
