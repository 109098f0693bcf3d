package admission

import (
	"errors"
	"net"
	"time"
)

// Seat is the place of one session at the gate. It belongs to one goroutine.
//
// While the session waits for a high-latency host it uses no processor, so it leaves the gate: otherwise the few places
// that a busy processor allows would be held for round trips. The node's connections bound how many wait like this. A
// session at a low-latency host keeps its place: it waits for almost nothing, or for a busy processor, and with more
// sessions each would find less to ask at once.
type Seat struct {
	Gate        *Gate
	HighLatency bool // of the session's host

	taken bool
}

// Take takes a place if Enter gave no ticket, or Wait has ended with one.
func (s *Seat) Take(admitted bool) bool {
	s.taken = admitted
	return admitted
}

// Taken reports whether the session has a place.
func (s *Seat) Taken() bool { return s.taken }

// Leave gives the place back, if there is one.
func (s *Seat) Leave() {
	if s.taken {
		s.taken = false
		s.Gate.Leave()
	}
}

// LeaveWhileWaiting leaves the gate until reenter is called, if the host has a high latency. Under load from single
// calls it stays: single calls would have to wait for the sessions that reenter.
func (s *Seat) LeaveWhileWaiting() (reenter func()) {
	if !s.HighLatency || !s.taken || s.Gate.singleCalls.UnderLoad(time.Now()) {
		return func() {}
	}
	s.Leave()
	return func() {
		s.taken = true
		s.Gate.Reenter()
	}
}

// Conn is a connection that leaves the gate while it is read.
func (s *Seat) Conn(c net.Conn) net.Conn { return seatedConn{c, s} }

type seatedConn struct {
	net.Conn
	seat *Seat
}

func (c seatedConn) Read(b []byte) (int, error) {
	defer c.seat.LeaveWhileWaiting()()
	return c.Conn.Read(b)
}

// NetConn returns the connection below, as that of tls.Conn does.
func (c seatedConn) NetConn() net.Conn { return c.Conn }

// CloseWrite passes on what TCP can do.
func (c seatedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger passes it on too.
func (c seatedConn) SetLinger(seconds int) error {
	if conn, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return conn.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}
