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
	if v.waits == nil {
		v.waits = map[*lane]time.Time{}
	}
	defer clear(v.waits) // it shall keep no lane
	was := v.held
	v.held = wire.Held{}
	for _, pr := range v.probes {
		if pr == nil {
			continue
		}
		l := pr.lane.Load()
		if l == nil {
			continue
		}
		until, known := v.waits[l]
		if !known {
			until = l.later(v.who, now)
			v.waits[l] = until
		}
		if until.IsZero() || !l.queues(pr) {
			continue
		}
		v.held.Rows++
		if v.held.Until.IsZero() || until.Before(v.held.Until) {
			v.held.Until = until
		}
	}
	if v.held != was && len(v.part) == 0 {
		v.emit(wire.Results{Job: v.b.Job, Chunk: v.b.Chunk, Epoch: v.b.Epoch, Held: v.held})
	}
}

// queues reports a probe that no session has.
func (l *lane) queues(p *probe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.in != nil
}
