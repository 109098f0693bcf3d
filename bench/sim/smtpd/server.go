package smtpd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// Server serves every host of a world. The connection's local address
// identifies the host.
type Server struct {
	world   *world.World
	referee *referee.Referee
	grey    *greylist
	turns   *turnBook
	tls     *tls.Config
	serial  atomic.Uint64 // numbers the sessions
	blocklists
}

// New makes the server of w's hosts. It starts nothing.
func New(w *world.World, ref *referee.Referee) (*Server, error) {
	config, err := newTLSConfig(time.Now())
	if err != nil {
		return nil, err
	}
	return &Server{world: w, referee: ref, grey: newGreylist(), turns: newTurnBook(), tls: config}, nil
}

// Serve accepts connections until ctx is done or the listener fails, and
// returns after the last of them has ended. It closes ln. The error is nil when
// ctx ended it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			time.Sleep(acceptPause)
			continue
		default:
			return err
		}
		sessions.Go(func() { s.handle(ctx, conn) })
	}
}

// acceptPause is how long a listener waits after a temporary error.
const acceptPause = 10 * time.Millisecond

// isTemporary reports whether Accept may succeed later: the client has gone away, or
// the file limit is reached.
func isTemporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// handle serves one accepted connection and closes it.
func (s *Server) handle(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	host, known := s.world.HostAt(addrOf(conn.LocalAddr()))
	if !known || host.Role == world.Dead {
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	source := addrOf(conn.RemoteAddr())
	tracked := s.referee.Connect(time.Now(), source, &host)
	// The count goes down before the socket closes: a client that sees the end of
	// this connection may open the next one.
	defer tracked.Close()
	id := mixBits(s.serial.Add(1))
	c := &session{
		turn: s.turns.stateOf(&host, source), otherBackEnd: id%2 == 1,
		server: s, host: &host, behaviour: &host.Persona.Behaviour, connection: tracked,
		lineConn: lineConn{rawConn: conn, conn: conn, done: ctx.Done(), in: make([]byte, inputSize), now: time.Now(),
			latency: s.world.Latency(&host)},
		// Ids of real servers look random, and grow with each reply.
		values: persona.ReplyValues{IP: source, Host: host.Name, ID: id >> 40},
	}
	c.run()
}

// addrOf is the address without port of a TCP or in-memory address.
func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// scaled is a persona's waiting time in this world.
func (s *Server) scaled(d time.Duration) time.Duration {
	return persona.ScaleWait(d, s.world.Config().Speedup)
}

// mixBits spreads every bit of x over the whole word (the finaliser of SplitMix64).
func mixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
