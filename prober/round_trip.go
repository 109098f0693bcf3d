package prober

import (
	"errors"
	"net"
	"sync"
	"time"
)

// gatedConn is a session's connection. While the session waits for a far host it keeps no processor busy, and holds no place in the
// admission gate: else a few places, all that there are when the processor is busy, would each be held for round trips, and the pipe
// would stand empty. How many wait so, the node's connections bound. A near host's session keeps its place: it waits for next to
// nothing, or for a busy processor, and the more sessions there were, the less each would find to ask at once.
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

// SetLinger does, too.
func (a gatedConn) SetLinger(seconds int) error {
	if c, ok := a.Conn.(interface{ SetLinger(int) error }); ok {
		return c.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// leaveWhileWaiting leaves the admission gate until back is called, where the host is far. Under load from single calls it does not: they would meet
// all who come back.
func (s *session) leaveWhileWaiting() (reenter func()) {
	if !s.highLatency || !s.admitted || s.queue.prober.singleCalls.underLoad(time.Now()) {
		return noop
	}
	s.releaseAdmission()
	return func() {
		s.admitted = true
		s.queue.prober.gate.reenter()
	}
}

func noop() {}

// rttEstimate are what connections heard: the quickest answer to a command of the greeting. They tell whether hosts are far, whatever
// the processor does: a busy one makes nearly all echoes late, but hardly the earliest of many. The zero value has heard none.
type rttEstimate struct {
	least         time.Duration // of the n latest
	n             int
	previousLeast time.Duration // of as many as are wanted before those; 0 for none yet
}

const (
	highRTT    = 10 * time.Millisecond // of the earliest
	rttSamples = 32                    // connections that are looked at, and as many before them
)

func (e *rttEstimate) record(took time.Duration) {
	if took = max(took, 1); e.n == 0 || took < e.least {
		e.least = took
	}
	if e.n++; e.n == rttSamples {
		e.previousLeast, e.n = e.least, 0
	}
}

// isHigh reports that all the hosts are that were heard lately; false until many were.
func (e *rttEstimate) isHigh() bool {
	return e.previousLeast >= highRTT && (e.n == 0 || e.least >= highRTT)
}

// nodeRTT are the echoes of all hosts: what is thought of those of whom little was heard.
type nodeRTT struct {
	mu  sync.Mutex // guards echoes
	rtt rttEstimate
}

func (h *nodeRTT) isHigh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rtt.isHigh()
}

func (h *nodeRTT) record(rtt time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rtt.record(rtt)
}

// highLatency reports that the queue's hosts are far. The mutex is held.
func (q *readyQueue) highLatency() bool {
	if q.rtt.previousLeast == 0 {
		return q.prober.nodeRTT.isHigh()
	}
	return q.rtt.isHigh()
}
