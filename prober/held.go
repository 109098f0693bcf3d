package prober

import (
	"time"

	"probity/prober/wire"
)

// heldEvery is how often it is counted how many rows of a batch wait for a budget.
const heldEvery = 2 * time.Second

// countHeld counts the rows of the batch that no session has and whose lane's budgets allow no more, and tells what has changed.
func (v *verification) countHeld(now time.Time) {
	if now.Sub(v.counted) < heldEvery {
		return
	}
	v.counted = now
	waits := map[*lane][]*probe{}
	for _, pr := range v.probes {
		if pr == nil {
			continue
		}
		if l := pr.lane.Load(); l != nil {
			waits[l] = append(waits[l], pr)
		}
	}
	was := v.held
	v.held = wire.Held{}
	for l, probes := range waits {
		until := l.later(v.who, now)
		if until.IsZero() {
			continue
		}
		v.held.Rows += l.countQueued(probes)
		if v.held.Until.IsZero() || until.Before(v.held.Until) {
			v.held.Until = until
		}
	}
	if v.held.Rows == 0 {
		v.held.Until = time.Time{}
	}
	if v.held != was && len(v.part) == 0 {
		v.emit(wire.Results{Job: v.b.Job, Chunk: v.b.Chunk, Epoch: v.b.Epoch, Held: v.held})
	}
}

// countQueued counts the probes that no session has.
func (l *lane) countQueued(probes []*probe) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range probes {
		if p.in != nil {
			n++
		}
	}
	return n
}
