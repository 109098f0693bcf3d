package prober

import (
	"time"

	"probity/prober/readyqueue"
	"probity/prober/wire"
)

// budgetWaitEvery is how often the rows of a batch that wait for a budget are counted.
const budgetWaitEvery = 2 * time.Second

// countBudgetWait counts the rows of the batch that no session has and whose queue's budgets allow no more, and emits
// a change.
func (b *batch) countBudgetWait(now time.Time) {
	if now.Sub(b.budgetWaitCountedAt) < budgetWaitEvery {
		return
	}
	b.budgetWaitCountedAt = now
	if b.queueWaits == nil {
		b.queueWaits = map[*readyqueue.Queue]time.Time{}
	}
	defer clear(b.queueWaits) // it must keep no queue alive
	was := b.budgetWait
	b.budgetWait = wire.BudgetWait{}
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
		b.budgetWait.Rows++
		if b.budgetWait.Until.IsZero() || until.Before(b.budgetWait.Until) {
			b.budgetWait.Until = until
		}
	}
	if b.budgetWait != was && len(b.part) == 0 {
		b.emit(wire.Results{Job: b.request.Job, Chunk: b.request.Chunk, Epoch: b.request.Epoch,
			BudgetWait: b.budgetWait})
	}
}
