package readyqueue

import (
	"errors"
	"net"
	"time"
)

// gatedConn is a session's connection. While the session waits for a high-latency host it uses no processor, so it leaves the
// admission gate: otherwise the few places that a busy processor allows would be held for round trips. The node's connections
// bound how many wait like this. A session at a low-latency host keeps its place: it waits for almost nothing, or for a busy
// processor, and with more sessions each would find less to ask at once.
type gatedConn struct {
	net.Conn
	s *session
}

func (a gatedConn) Read(b []byte) (int, error) {
	defer a.s.leaveWhileWaiting()()
	return a.Conn.Read(b)
}

// CloseWrite passes on what TCP can do.
func (a gatedConn) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger passes it on too.
func (a gatedConn) SetLinger(seconds int) error {
	if c, ok := a.Conn.(interface{ SetLinger(int) error }); ok {
		return c.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// leaveWhileWaiting leaves the admission gate until reenter is called, if the host has a high latency. Under load from single
// calls it stays: single calls would have to wait for the sessions that reenter.
func (s *session) leaveWhileWaiting() (reenter func()) {
	if !s.highLatency || !s.admitted || s.queue.env.SingleCalls.UnderLoad(time.Now()) {
		return noop
	}
	s.releaseAdmission()
	return func() {
		s.admitted = true
		s.queue.env.Gate.Reenter()
	}
}

func noop() {}
