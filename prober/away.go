package prober

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Who waits for a far host keeps no processor busy: it steps out of the turnstile until the host has answered. Else a few places,
// all the turnstile has when the processor is busy, would each be held for round trips, and the pipe would stand empty.

// away wraps a connection to a far host, whose session leaves the turnstile while it reads.
type away struct {
	net.Conn
	s   *session
	ctx context.Context // ends the wait for a place
}

func (c away) Read(b []byte) (int, error) {
	defer c.s.stepAway(c.ctx)()
	return c.Conn.Read(b)
}

// CloseWrite passes on what TCP can do.
func (c away) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// stepAway leaves the turnstile until back is called, where the host is far. Who was outside stays there.
func (s *session) stepAway(ctx context.Context) (back func()) {
	if !s.inside || !s.distant {
		return func() {}
	}
	s.stepOut()
	return func() { s.pass(ctx) }
}

// isDistant reports a far host. Of one that was never reached it is a guess: as far as all hosts were lately.
func (l *lane) isDistant() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.far.setup == 0 {
		return l.prober.horizon.isFar()
	}
	return l.far.setup >= farAway
}

// horizon is how far the nearest of the hosts is that were reached lately. The zero value is near.
type horizon struct {
	mu    sync.Mutex // guards what follows
	least time.Duration
	n     int
	far   bool
}

// views is how many connections make a view of the horizon.
const views = 16

// reached notes a connection that was greeted after so long.
func (h *horizon) reached(took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == 0 || took < h.least {
		h.least = took
	}
	if h.n++; h.n == views {
		h.far, h.n = h.least >= farAway, 0
	}
}

func (h *horizon) isFar() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.far
}
