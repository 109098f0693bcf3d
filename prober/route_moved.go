package prober

import (
	"context"

	"probity/engine"
	"probity/prober/readyqueue"
	"probity/prober/wire/timing"
)

// A narrow route, and a domain of a provider with tenants, has one source of the cluster at a time. The source that
// loses it may read replies for timing.CloseTimeout; then it resets its remaining connections, so that the receiver
// never counts those of both. Otherwise a connection whose path has failed would stay open for as long as a reply may
// take.

// afterCloseTimeout calls f after timing.CloseTimeout, unless the node stops first: then all sessions end within
// stopTime.
func (p *Prober) afterCloseTimeout(f func()) {
	p.start(func(soft, _ context.Context) {
		if sleep(soft, timing.CloseTimeout) {
			f()
		}
	})
}

// KeysMoved is called when narrow keys of the cluster have other owners. The node does not know which: after
// timing.CloseTimeout it asks nothing more for any rows that it has returned, such as a decoy that waits for the next
// hour's budget. A connection to a provider with tenants may have asked for one that moved, and go on with others: all
// end, and again those that have served a single call or a decoy of the moved one meanwhile.
func (p *Prober) KeysMoved() {
	p.endSharedSessions()
	p.afterCloseTimeout(func() {
		for _, q := range p.allQueues() {
			if q.Provider.Kind != engine.KindWide {
				p.dropReturned(q)
			}
		}
		p.endSharedSessions()
	})
}

// endSharedSessions ends the sessions at providers with tenants.
func (p *Prober) endSharedSessions() {
	for _, q := range p.allQueues() {
		if q.Provider.Kind == engine.KindTenants {
			q.EndSessions()
		}
	}
}

// returnCancelled returns the unfinished rows of a cancelled batch. Before timing.CloseTimeout is over, some may have
// come again, in another batch: then the route has not moved.
func (b *batch) returnCancelled() {
	queues := map[*readyqueue.Queue]bool{}
	for _, pr := range b.probes {
		if pr == nil {
			continue
		}
		if q := readyqueue.Of(&pr.Probe); q != nil && q.Provider.Kind != engine.KindWide {
			queues[q] = true
		}
	}
	b.returnUnfinished()
	if len(queues) > 0 {
		b.p.afterCloseTimeout(func() {
			for q := range queues {
				b.p.dropReturned(q)
			}
		})
	}
}

// dropReturned drops a queue's probes whose rows were returned, and resets the sessions that ask for them.
func (p *Prober) dropReturned(q *readyqueue.Queue) {
	p.dropUnwanted(q)
	q.Reset(p.inFlight.unwanted)
}

// dropUnwanted drops a queue's probes that no session has and no caller waits for, such as returned rows whose decoy
// was not asked yet.
func (p *Prober) dropUnwanted(q *readyqueue.Queue) {
	for _, pr := range q.Unsent() {
		if p.inFlight.removeWaiter(pr, nil) {
			p.rows.Add(-1)
		}
	}
}
