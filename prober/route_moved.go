package prober

import (
	"context"

	"probity/engine"
	"probity/prober/readyqueue"
	"probity/prober/wire/timing"
)

// A narrow route has one source of the cluster at a time. The source that loses it may read replies for timing.CloseTimeout;
// then it resets its remaining connections, so that the receiver never counts those of both. Otherwise a connection whose path
// has failed would stay open for as long as a reply may take.

// afterCloseTimeout calls f after timing.CloseTimeout, unless the node stops first: then all sessions end within stopTime.
func (p *Prober) afterCloseTimeout(f func()) {
	p.start(func(soft, _ context.Context) {
		if sleep(soft, timing.CloseTimeout) {
			f()
		}
	})
}

// returnCancelled returns the unfinished rows of a cancelled batch. Before timing.CloseTimeout is over, some may have come again,
// in another batch: then the route has not moved.
func (b *batch) returnCancelled() {
	queues := map[*readyqueue.Queue]bool{}
	for _, pr := range b.probes {
		if pr == nil {
			continue
		}
		if q := readyqueue.Of(&pr.Probe); q != nil && q.Provider.Kind == engine.KindNarrow {
			queues[q] = true
		}
	}
	b.returnUnfinished()
	if len(queues) > 0 {
		b.p.afterCloseTimeout(func() {
			for q := range queues {
				b.p.dropUnwanted(q)
				q.Reset(b.p.inFlight.hasWaiters)
			}
		})
	}
}

// dropUnwanted drops a queue's probes that no session has and no caller waits for, such as returned rows whose decoy was not asked yet.
func (p *Prober) dropUnwanted(q *readyqueue.Queue) {
	for _, pr := range q.Unsent() {
		if p.inFlight.removeWaiter(pr, nil) {
			p.rows.Add(-1)
		}
	}
}
