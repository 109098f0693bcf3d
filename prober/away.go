package prober

import (
	"errors"
	"net"
	"sync"
	"time"
)

// away is a session's connection. While the session waits for a far host it keeps no processor busy, and holds no place in the
// turnstile: else a few places, all that there are when the processor is busy, would each be held for round trips, and the pipe
// would stand empty. How many wait so, the node's connections bound. A near host's session keeps its place: it waits for next to
// nothing, or for a busy processor, and the more sessions there were, the less each would find to ask at once.
type away struct {
	net.Conn
	s *session
}

func (a away) Read(b []byte) (int, error) {
	defer a.s.stepAway()()
	return a.Conn.Read(b)
}

// CloseWrite passes on what TCP can do.
func (a away) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger does, too.
func (a away) SetLinger(seconds int) error {
	if c, ok := a.Conn.(interface{ SetLinger(int) error }); ok {
		return c.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// stepAway leaves the turnstile until back is called, where the host is far. While singles press it does not: they would meet
// all who come back.
func (s *session) stepAway() (back func()) {
	if !s.far || !s.inside || s.lane.prober.calls.pressing(time.Now()) {
		return stay
	}
	s.stepOut()
	return func() {
		s.inside = true
		s.lane.prober.stile.comeBack()
	}
}

func stay() {}

// echoes are what connections heard: the quickest answer to a command of the greeting. They tell whether hosts are far, whatever
// the processor does: a busy one makes nearly all echoes late, but hardly the earliest of many. The zero value has heard none.
type echoes struct {
	least  time.Duration // of the n latest
	n      int
	before time.Duration // of as many as are wanted before those; 0 for none yet
}

const (
	farEcho    = 10 * time.Millisecond // of the earliest
	manyEchoes = 32                    // connections that are looked at, and as many before them
)

func (e *echoes) heard(took time.Duration) {
	if took = max(took, 1); e.n == 0 || took < e.least {
		e.least = took
	}
	if e.n++; e.n == manyEchoes {
		e.before, e.n = e.least, 0
	}
}

// far reports that all the hosts are that were heard lately; false until many were.
func (e *echoes) far() bool { return e.before >= farEcho && (e.n == 0 || e.least >= farEcho) }

// horizon are the echoes of all hosts: what is thought of those of whom little was heard.
type horizon struct {
	mu     sync.Mutex // guards echoes
	echoes echoes
}

func (h *horizon) isFar() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.echoes.far()
}

func (h *horizon) heard(echo time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.echoes.heard(echo)
}

// isFar reports that the lane's hosts are far. The mutex is held.
func (l *lane) isFar() bool {
	if l.echoes.before == 0 {
		return l.prober.horizon.isFar()
	}
	return l.echoes.far()
}
