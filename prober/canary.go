package prober

import (
	"context"
	"time"
)

// A canary to a host that never answers proves nothing: were only such hosts left, a sound source would stay sick, and ask one of
// them every half a minute. So canaries go to the host that the source has reached last, within that lane's budgets: a knock. Where
// that cannot be, and every fourth time in case that this host has gone, a lane with waiting probes sends its own. The first knock
// goes as soon as the source doubts itself; a host that has just answered one shows that the source works.
const (
	canaryGrace = time.Second // how long others leave the canary to the knock
	canaryTurns = 4
	knockEvery  = 5 * time.Second // at the most
	provenFor   = 3 * time.Second
)

// knock is a host that a source has reached, and for whom.
type knock struct {
	errand
	host string
}

// met notes a host that greeted.
func (h *health) met(k knock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = k
}

// forget drops a host that is not to be asked any more.
func (h *health) forget(k knock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known.host == k.host {
		h.known = knock{}
	}
}

// answered notes a knock that was.
func (h *health) answered(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proved = now
}

// firstCanary is when a source that begins to doubt itself may send one. The mutex is held.
func (h *health) firstCanary(now time.Time) time.Time {
	if h.known.host == "" {
		return now.Add(canaryEvery)
	}
	if at := h.knocked.Add(knockEvery); at.After(now) {
		return at
	}
	return now
}

// tryAt is when a connection may be tried, if not now. While sick, who is let go is the canary, and the next comes later.
func (h *health) tryAt(knocks bool, now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.canary
	switch {
	case !knocks && !h.sick():
		return time.Time{}
	case !knocks && h.known.host != "":
		at = at.Add(canaryGrace)
	}
	if now.Before(at) {
		return at
	}
	h.canary = now.Add(canaryEvery)
	if h.tried++; knocks {
		h.knocked = now
	}
	return time.Time{}
}

// watch has canaries sent for a source until it is at ease.
func (p *Prober) watch(e *egress) {
	if !e.health.needsWatch() {
		return
	}
	p.spawn(func(soft, _ context.Context) {
		for at, k := e.health.next(); !at.IsZero(); at, k = e.health.next() {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // it may be at ease by now
			}
			if k.host != "" && p.knock(e, k) {
				continue
			}
			if !sleep(soft, 2*canaryGrace) { // somebody else's turn
				return
			}
		}
	})
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// needsWatch reports an uneasy source that is not watched: the caller watches it from now on.
func (h *health) needsWatch() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched || !h.uneasy() || h.known.host == "" {
		return false
	}
	h.watched = true
	return true
}

// next is when the next canary is due, and to whom it may go; the zero time when none is, and the watch ends.
func (h *health) next() (time.Time, knock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.uneasy() {
		h.watched = false
		return time.Time{}, knock{}
	}
	if h.sick() && h.tried%canaryTurns == canaryTurns-1 {
		return h.canary, knock{}
	}
	return h.canary, h.known
}

// knock connects to a host without a recipient to ask about. False when it may not.
func (p *Prober) knock(e *egress, k knock) bool {
	now := time.Now()
	if e.rested(now) {
		return false
	}
	if p.forbids(&k.errand) {
		e.health.forget(k)
		return false
	}
	l := p.laneOf(&k.route, e, now)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.pace.rest) {
		return false // its receiver wants nothing of this source
	}
	return !l.dead && l.start(&group{key: hostSet(k.host, k.hosts), host: k.host, domain: k.domain, knock: true}, bulk, now)
}
