package prober

import (
	"sync"
	"time"
)

// A source that cannot connect anywhere is sick: the fault is ours or our network's, and each further attempt would blame a
// receiver for it. Then one connection in a while, the canary, finds out whether it is well again.
const (
	sickFails   = 20 // connections in a row
	sickRoutes  = 10 // that they went to, at the least
	canaryEvery = 30 * time.Second
)

// health is what an identity's connections have come to.
type health struct {
	mu     sync.Mutex      // guards what follows
	fails  int             // in a row
	routes map[string]bool // of them; at most sickRoutes
	canary time.Time       // when the next may go; only while sick
}

// connected notes a connection that was made, or that was not. It reports a change: sick, or well again.
func (h *health) connected(ok bool, route string, now time.Time) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.sick()
	if ok {
		h.fails = 0
		clear(h.routes)
		return was
	}
	h.fails++
	if h.routes == nil {
		h.routes = map[string]bool{}
	}
	if len(h.routes) < sickRoutes {
		h.routes[route] = true
	}
	if !h.sick() {
		return false
	}
	if !was {
		h.canary = now.Add(canaryEvery)
	}
	return !was
}

func (h *health) sick() bool { return h.fails >= sickFails && len(h.routes) >= sickRoutes }

func (h *health) isSick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick()
}

// waits is when a connection may be tried, if not now. While sick, who is let go is the canary, and the next comes later.
func (h *health) waits(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sick() {
		return time.Time{}
	}
	if now.Before(h.canary) {
		return h.canary
	}
	h.canary = now.Add(canaryEvery)
	return time.Time{}
}
