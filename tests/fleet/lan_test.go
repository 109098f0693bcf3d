package fleet_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"probity/internal/memnet"
)

const gossipPort = 7946

// lan connects the machines of a cluster in memory: packets and streams of gossip, and the coordinator's streams. Each
// of the two can be cut for one machine, like a pulled cable: nothing passes, no side notices, and what was sent
// arrives when it heals.
type lan struct {
	network *memnet.Network

	mu         sync.Mutex // guards what follows, and the queued connections of machines
	hosts      map[string]*lanHost
	gossipCut  map[string]bool          // address -> its gossip is cut
	streamsCut map[string]chan struct{} // address -> its streams are cut, until the channel is closed
	conns      map[string][]net.Conn    // address -> the connections of its streams
}

func newLAN(network *memnet.Network) *lan {
	return &lan{network: network, hosts: map[string]*lanHost{}, gossipCut: map[string]bool{},
		streamsCut: map[string]chan struct{}{}, conns: map[string][]net.Conn{}}
}

// cutGossip cuts the gossip of a machine, or heals it.
func (l *lan) cutGossip(ip string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gossipCut[ip] = cut
}

// cutStreams cuts the coordinator's streams to a machine, or heals them.
func (l *lan) cutStreams(ip string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	healed := l.streamsCut[ip]
	switch {
	case cut && healed == nil:
		l.streamsCut[ip] = make(chan struct{})
	case !cut && healed != nil:
		close(healed)
		delete(l.streamsCut, ip)
	}
}

// waitUncut waits until the streams are healed; false if end is closed before.
func (l *lan) waitUncut(ip string, end <-chan struct{}) bool {
	for {
		l.mu.Lock()
		healed := l.streamsCut[ip]
		l.mu.Unlock()
		if healed == nil {
			return true
		}
		select {
		case <-healed:
		case <-end:
			return false
		}
	}
}

// dial connects to a node's stream, as a Fleet does.
func (l *lan) dial(ctx context.Context, address string) (net.Conn, error) {
	ip, _, _ := strings.Cut(address, ":")
	if !l.waitUncut(ip, ctx.Done()) {
		return nil, ctx.Err()
	}
	conn, err := l.network.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	cuttable := &cuttableConn{Conn: conn, lan: l, ip: ip, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[ip] = append(l.conns[ip], cuttable)
	return cuttable, nil
}

// endStreams closes the connections of the coordinator's streams to a machine: both sides notice at once.
func (l *lan) endStreams(ip string) {
	l.mu.Lock()
	conns := l.conns[ip]
	delete(l.conns, ip)
	l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // closing a pipe never fails
	}
}

// cuttableConn is a stream that can be cut.
type cuttableConn struct {
	net.Conn
	lan    *lan
	ip     string
	once   sync.Once
	closed chan struct{}
}

func (c *cuttableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.lan.waitUncut(c.ip, c.closed) {
		return 0, os.ErrClosed
	}
	return n, err
}

func (c *cuttableConn) Write(b []byte) (int, error) {
	if !c.lan.waitUncut(c.ip, c.closed) {
		return 0, os.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *cuttableConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// lanHost is a machine's memberlist.Transport.
type lanHost struct {
	lan     *lan
	ip      string
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  bool // guarded by the lan's mutex
}

func (l *lan) host(ip string) *lanHost {
	h := &lanHost{lan: l, ip: ip, packets: make(chan *memberlist.Packet, 512), streams: make(chan net.Conn, 64)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts[ip] = h
	return h
}

// routeTo is the host where a message from h arrives; nil if it is lost.
func (h *lanHost) routeTo(address string) *lanHost {
	ip, _, _ := strings.Cut(address, ":")
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	if h.lan.gossipCut[h.ip] || h.lan.gossipCut[ip] {
		return nil
	}
	return h.lan.hosts[ip]
}

func (h *lanHost) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(h.ip), gossipPort, nil
}
func (h *lanHost) PacketCh() <-chan *memberlist.Packet { return h.packets }
func (h *lanHost) StreamCh() <-chan net.Conn           { return h.streams }

func (h *lanHost) WriteTo(b []byte, address string) (time.Time, error) {
	now := time.Now()
	if to := h.routeTo(address); to != nil {
		from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(h.ip), gossipPort))
		select {
		case to.packets <- &memberlist.Packet{Buf: bytes.Clone(b), From: from, Timestamp: now}:
		default: // a full queue drops, as a socket's does
		}
	}
	return now, nil
}

func (h *lanHost) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	if to := h.routeTo(address); to != nil {
		if near, ok := to.accept(h.ip); ok {
			return near, nil
		}
	}
	time.Sleep(timeout)
	return nil, os.ErrDeadlineExceeded
}

// accept queues a connection for the listener; false if the queue is full, or the host is closed.
func (h *lanHost) accept(from string) (near net.Conn, ok bool) {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	if h.closed {
		return nil, false
	}
	near, far := net.Pipe()
	select {
	case h.streams <- lanStream{far, from}:
		return lanStream{near, h.ip}, true
	default:
		return nil, false
	}
}

// Shutdown closes the queued connections, as closing a listener does: no side would read from them.
func (h *lanHost) Shutdown() error {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	h.closed = true
	if h.lan.hosts[h.ip] == h {
		delete(h.lan.hosts, h.ip)
	}
	for {
		select {
		case c := <-h.streams:
			_ = c.Close() // closing a pipe never fails
		default:
			return nil
		}
	}
}

// lanStream is a pipe that knows its peer.
type lanStream struct {
	net.Conn
	peer string
}

func (s lanStream) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(s.peer), gossipPort))
}

// A host that shuts down closes its queued connections and refuses later ones.
func TestClosedHostDropsQueuedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(nil)
		near, far := l.host("10.0.0.1"), l.host("10.0.0.2")
		waiting, err := near.DialTimeout("10.0.0.2:7946", time.Second)
		require.NoError(t, err)
		require.NoError(t, far.Shutdown())
		_, err = waiting.Write([]byte("label"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		_, err = near.DialTimeout("10.0.0.2:7946", time.Second)
		require.Error(t, err)
		_, ok := far.accept(near.ip)
		require.False(t, ok)
	})
}
