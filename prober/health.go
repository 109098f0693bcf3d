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

	// uneasyRoutes is how many routes in a row a source fails to reach before it doubts itself, and freshFor how long ago it must
	// have reached another when that began: a source that has reached none for long has no reason to think that it could.
	uneasyRoutes = 5
	freshFor     = 5 * time.Minute
	// alibi is for how long a source must be seen to work after a connection was begun, so that its failure is the receiver's: a
	// packet without an answer is sent again after a second (RFC 6298 section 2).
	alibi = time.Second
	// lapse is how much time may lie between two connections of a source that is seen to work: no outage as short as that silences a
	// connection that is tried for longer, as its packets are sent at once and after 1, 3 and 7 seconds.
	lapse = 3 * time.Second
)

// health is what an identity's connections have come to.
type health struct {
	mu     sync.Mutex      // guards what follows
	fails  int             // in a row
	routes map[string]bool // of them; at most sickRoutes
	canary time.Time       // when the next may go; only while uneasy
	since  time.Time       // since when it was seen to work, until worked
	worked time.Time       // when the last connection was made
	began  time.Time       // the first failure in the row

	known   knock     // whom it has reached last: who is most likely to answer a canary
	knocked time.Time // when he was asked for it last
	proved  time.Time // when he answered
	tried   int       // canaries since it is sick
	watched bool      // somebody sends canaries
}

// connected notes a connection that was made, or that was not. It reports a change: sick, or well again.
func (h *health) connected(ok bool, route string, now time.Time) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.sick()
	if ok {
		if now.Sub(h.worked) > lapse {
			h.since = now
		}
		h.fails, h.tried, h.worked = 0, 0, now
		clear(h.routes)
		return was
	}
	if !h.proved.IsZero() && now.Sub(h.proved) < provenFor {
		return false
	}
	uneasy := h.uneasy()
	if h.fails++; h.fails == 1 {
		h.began = now
	}
	if h.routes == nil {
		h.routes = map[string]bool{}
	}
	if len(h.routes) < sickRoutes {
		h.routes[route] = true
	}
	if h.uneasy() && !uneasy {
		h.canary = h.firstCanary(now)
	}
	return !was && h.sick()
}

func (h *health) sick() bool { return h.fails >= sickFails && len(h.routes) >= sickRoutes }

// uneasy reports several receivers that failed in a row: it may be us.
func (h *health) uneasy() bool { return len(h.routes) >= uneasyRoutes }

func (h *health) isSick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick()
}

// doubts reports that a connection begun at a time may have failed for reasons of our own: several receivers fail in a row,
// and lately all was well, but not while it was tried.
func (h *health) doubts(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.uneasy() && h.idleSince(began) && h.fresh()
}

// unsure reports that a connection begun at a time may have failed in an outage of which little else was seen: one that began just
// now, or that ended before the connection failed.
func (h *health) unsure(began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return (began.Before(h.since) || h.idleSince(began)) && h.fresh()
}

// idleSince reports a source that was not seen to work once a connection had been tried for a while. The mutex is held.
func (h *health) idleSince(began time.Time) bool { return h.worked.Sub(began) <= alibi }

// fresh reports a source that had worked lately when the failures in a row began. The mutex is held.
func (h *health) fresh() bool { return h.began.Sub(h.worked) < freshFor }
