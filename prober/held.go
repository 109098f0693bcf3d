package prober

import (
	"time"

	"probity/prober/readyqueue"
	"probity/prober/wire"
)

// heldEvery is how often the rows of a batch that wait for a budget are counted.
const heldEvery = 2 * time.Second

// countHeld counts the rows of the batch that no session has and whose queue's budgets allow no more, and emits a
// change.
func (b *batch) countHeld(now time.Time) {
	if now.Sub(b.heldCountedAt) < heldEvery {
		return
	}
	b.heldCountedAt = now
	if b.queueWaits == nil {
		b.queueWaits = map[*readyqueue.Queue]time.Time{}
	}
	defer clear(b.queueWaits) // it must keep no queue alive
	was := b.held
	b.held = wire.Held{}
	for _, pr := range b.probes {
		if pr == nil {
			continue
		}
		q := readyqueue.Of(&pr.Probe)
		if q == nil {
			continue
		}
		until, known := b.queueWaits[q]
		if !known {
			until = q.BudgetAllowsAt(b.priority, now)
			b.queueWaits[q] = until
		}
		if until.IsZero() || !q.IsQueued(&pr.Probe) {
			continue
		}
		b.held.Rows++
		if b.held.Until.IsZero() || until.Before(b.held.Until) {
			b.held.Until = until
		}
	}
	if b.held != was && len(b.part) == 0 {
		b.emit(wire.Results{Job: b.request.Job, Chunk: b.request.Chunk, Epoch: b.request.Epoch, Held: b.held})
	}
}
