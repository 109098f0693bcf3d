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

// lan joins transports in memory. It can drop packets and cut hosts off from all others.
type lan struct {
	mu    sync.Mutex // guards what follows, and who stands in line at a host
	hosts map[string]*host
	away  map[string]bool // address -> cut off
	loss  float64         // of packets
	dice  *rand.Rand
}

func newLAN() *lan {
	return &lan{hosts: map[string]*host{}, away: map[string]bool{}, dice: rand.New(rand.NewPCG(1, 2))}
}

// host is one transport.
type host struct {
	lan     *lan
	ip      net.IP
	packets chan *memberlist.Packet
	streams chan net.Conn
	shut    bool // guarded by the lan's mutex
}

const port = 7946

func (l *lan) host(n byte) *host {
	h := &host{lan: l, ip: net.IPv4(10, 0, 0, n), packets: make(chan *memberlist.Packet, 512), streams: make(chan net.Conn, 64)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts[h.addr()] = h
	return h
}

func (h *host) addr() string { return fmt.Sprintf("%s:%d", h.ip, port) }

func (l *lan) cut(n byte)  { l.set(n, true) }
func (l *lan) heal(n byte) { l.set(n, false) }

func (l *lan) set(n byte, away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away[fmt.Sprintf("10.0.0.%d:%d", n, port)] = away
}

// path is where a message from h to addr arrives; nil where it does not.
func (l *lan) path(h *host, addr string, packet bool) *host {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away[h.addr()] || l.away[addr] || packet && l.dice.Float64() < l.loss {
		return nil
	}
	return l.hosts[addr]
}

func (h *host) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return h.ip, port, nil }
func (h *host) PacketCh() <-chan *memberlist.Packet                 { return h.packets }
func (h *host) StreamCh() <-chan net.Conn                           { return h.streams }

func (h *host) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	if to := h.lan.path(h, addr, true); to != nil {
		select {
		case to.packets <- &memberlist.Packet{Buf: bytes.Clone(b), From: &net.UDPAddr{IP: h.ip, Port: port}, Timestamp: now}:
		default: // a full queue drops, as a socket's does
		}
	}
	return now, nil
}

func (h *host) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if to := h.lan.path(h, addr, false); to != nil {
		if near, ok := to.accept(h.ip); ok {
			return near, nil
		}
	}
	time.Sleep(timeout)
	return nil, errors.New("i/o timeout")
}

// accept lines a connection up for whoever listens; false when the line is full, or nobody will listen any more.
func (h *host) accept(from net.IP) (near net.Conn, ok bool) {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	if h.shut {
		return nil, false
	}
	near, far := net.Pipe()
	select {
	case h.streams <- addressed{far, from}:
		return addressed{near, h.ip}, true
	default:
		return nil, false
	}
}

// Shutdown hangs up on those in line, as a listener does that is closed: nobody would read what they write.
func (h *host) Shutdown() error {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	h.shut = true
	if h.lan.hosts[h.addr()] == h {
		delete(h.lan.hosts, h.addr())
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

// addressed is a pipe that knows its peer.
type addressed struct {
	net.Conn
	peer net.IP
}

func (a addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: a.peer, Port: port} }

// Who stands in line at a host that shuts is hung up on, and so is who comes after.
func TestShutHostHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		near, far := l.host(1), l.host(2)
		waiting, err := near.DialTimeout(far.addr(), time.Second)
		require.NoError(t, err)
		require.NoError(t, far.Shutdown())
		_, err = waiting.Write([]byte("label"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		_, err = near.DialTimeout(far.addr(), time.Second)
		require.Error(t, err)
		_, ok := far.accept(near.ip)
		require.False(t, ok)
	})
}
