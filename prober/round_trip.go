package prober

import (
	"errors"
	"net"
	"sync"
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

// rttEstimate estimates how far hosts are: the least of many connections' fastest reply to a command of the greeting. A busy
// processor makes nearly all replies late, but hardly the fastest of many. The zero value has no samples.
type rttEstimate struct {
	least         time.Duration // of the n latest
	n             int
	previousLeast time.Duration // of the rttSamples before those; 0 for none yet
}

const (
	highRTT    = 10 * time.Millisecond // of the fastest reply
	rttSamples = 32                    // latest connections that count, and as many before them
)

func (e *rttEstimate) record(took time.Duration) {
	if took = max(took, 1); e.n == 0 || took < e.least {
		e.least = took
	}
	if e.n++; e.n == rttSamples {
		e.previousLeast, e.n = e.least, 0
	}
}

// isHigh reports that all recent connections had a high round-trip time; false until there are rttSamples.
func (e *rttEstimate) isHigh() bool {
	return e.previousLeast >= highRTT && (e.n == 0 || e.least >= highRTT)
}

// nodeRTT is the estimate over all hosts. It stands in for a queue that has too few samples.
type nodeRTT struct {
	mu  sync.Mutex // guards rtt
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

// highLatency reports that the queue's hosts have a high round-trip time. The mutex is held.
func (q *readyQueue) highLatency() bool {
	if q.rtt.previousLeast == 0 {
		return q.prober.nodeRTT.isHigh()
	}
	return q.rtt.isHigh()
}
