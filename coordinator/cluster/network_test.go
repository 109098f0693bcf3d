package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
)

// fakeNetwork joins transports in memory. It can drop packets and cut hosts off from all others.
type fakeNetwork struct {
	mu         sync.Mutex // guards what follows, and the queues of transports
	transports map[string]*fakeTransport
	isolated   map[string]bool // address -> isolated
	loss       float64         // of packets
	rng        *rand.Rand
}

func newFakeNetwork() *fakeNetwork {
	return &fakeNetwork{transports: map[string]*fakeTransport{}, isolated: map[string]bool{},
		rng: rand.New(rand.NewPCG(1, 2))}
}

// fakeTransport is one transport.
type fakeTransport struct {
	network *fakeNetwork
	ip      net.IP
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  bool // guarded by the network's mutex
}

const port = 7946

func (l *fakeNetwork) transport(n byte) *fakeTransport {
	h := &fakeTransport{network: l, ip: net.IPv4(10, 0, 0, n), packets: make(chan *memberlist.Packet, 512),
		streams: make(chan net.Conn, 64)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transports[h.addr()] = h
	return h
}

func (h *fakeTransport) addr() string { return fmt.Sprintf("%s:%d", h.ip, port) }

func (l *fakeNetwork) isolate(n byte)   { l.setIsolated(n, true) }
func (l *fakeNetwork) reconnect(n byte) { l.setIsolated(n, false) }

func (l *fakeNetwork) setIsolated(n byte, isolated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isolated[fmt.Sprintf("10.0.0.%d:%d", n, port)] = isolated
}

// destination returns where a message from h to addr arrives; nil where it does not.
func (l *fakeNetwork) destination(h *fakeTransport, addr string, packet bool) *fakeTransport {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isolated[h.addr()] || l.isolated[addr] || packet && l.rng.Float64() < l.loss {
		return nil
	}
	return l.transports[addr]
}

func (h *fakeTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return h.ip, port, nil }
func (h *fakeTransport) PacketCh() <-chan *memberlist.Packet                 { return h.packets }
func (h *fakeTransport) StreamCh() <-chan net.Conn                           { return h.streams }

func (h *fakeTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	if to := h.network.destination(h, addr, true); to != nil {
		select {
		case to.packets <- &memberlist.Packet{Buf: bytes.Clone(b), From: &net.UDPAddr{IP: h.ip, Port: port},
			Timestamp: now}:
		default: // a full queue drops, as a socket's does
		}
	}
	return now, nil
}

func (h *fakeTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if to := h.network.destination(h, addr, false); to != nil {
		if near, ok := to.enqueue(h.ip); ok {
			return near, nil
		}
	}
	time.Sleep(timeout)
	return nil, errors.New("i/o timeout")
}

// enqueue queues a connection for the listener; false when the queue is full or the transport is closed.
func (h *fakeTransport) enqueue(from net.IP) (near net.Conn, ok bool) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.closed {
		return nil, false
	}
	near, far := net.Pipe()
	select {
	case h.streams <- addrConn{far, from}:
		return addrConn{near, h.ip}, true
	default:
		return nil, false
	}
}

// Shutdown closes queued connections, as a closed listener does.
func (h *fakeTransport) Shutdown() error {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.closed = true
	if h.network.transports[h.addr()] == h {
		delete(h.network.transports, h.addr())
	}
	for {
		select {
		case c := <-h.streams:
			_ = c.Close() // a pipe's never fails
		default:
			return nil
		}
	}
}

// addrConn is a pipe that knows its peer.
type addrConn struct {
	net.Conn
	peer net.IP
}

func (a addrConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: a.peer, Port: port} }

// A closed transport closes its queued connections and refuses later ones.
func TestClosedTransportClosesQueuedConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeNetwork()
		near, far := l.transport(1), l.transport(2)
		waiting, err := near.DialTimeout(far.addr(), time.Second)
		require.NoError(t, err)
		require.NoError(t, far.Shutdown())
		_, err = waiting.Write([]byte("label"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		_, err = near.DialTimeout(far.addr(), time.Second)
		require.Error(t, err)
		_, ok := far.enqueue(near.ip)
		require.False(t, ok)
	})
}
