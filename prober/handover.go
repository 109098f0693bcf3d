package prober

import (
	"slices"

	"probity/engine"
	"probity/prober/wire/timing"
)

// A narrow route has one source of the cluster at a time. The source that loses it may read replies for timing.CloseTimeout;
// then it resets its remaining connections, so that the receiver never counts those of both. Otherwise a connection whose path
// has failed would stay open for as long as a reply may take.

// afterHangUpTime calls f after timing.CloseTimeout, unless the node stops first: then all sessions end within stopTime.
func (p *Prober) afterHangUpTime(f func()) {
	p.spawn(func() {
		if sleep(p.life.soft, timing.CloseTimeout) {
			f()
		}
	})
}

// returnCancelled returns the unfinished rows of a cancelled batch. Before timing.CloseTimeout is over, some may have come again,
// in another batch: then the route has not moved.
func (b *batch) returnCancelled() {
	queues := map[*readyQueue]bool{}
	for _, pr := range b.probes {
		if pr == nil {
			continue
		}
		if q := pr.queue.Load(); q != nil && q.provider.Kind == engine.KindNarrow {
			queues[q] = true
		}
	}
	b.returnUnfinished()
	if len(queues) > 0 {
		b.p.afterHangUpTime(func() {
			for q := range queues {
				b.p.resetUnwanted(q)
			}
		})
	}
}

// resetUnwanted resets a queue's sessions whose probes have no caller and, if no probe of the queue has one, also those
// without probes.
func (p *Prober) resetUnwanted(q *readyQueue) {
	p.dropUnwanted(q)
	q.mu.Lock()
	waits, recipients := q.probes, map[*session][]*probe{}
	for _, s := range q.working {
		recipients[s] = nil
		for _, r := range s.recipients {
			if r.probe != nil {
				waits--
				recipients[s] = append(recipients[s], r.probe)
			} else if first := r.domainQueue.decoy.waiting.first; first != nil {
				recipients[s] = append(recipients[s], first)
			}
		}
	}
	q.mu.Unlock()
	var unwanted, silent []*session
	for s, probes := range recipients {
		switch {
		case len(probes) == 0:
			silent = append(silent, s)
		case slices.ContainsFunc(probes, p.inFlight.hasWaiters):
			waits++
		default:
			unwanted = append(unwanted, s)
		}
	}
	if waits == 0 {
		unwanted = append(unwanted, silent...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resetSessions(unwanted)
}

// hasWaiters reports that a caller or a retry waits for a probe.
func (f *inFlight) hasWaiters(p *probe) bool {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[p.key] == p && len(p.waiters) > 0 || p.retry
}

// resetSessions cancels sessions, whatever they wait for. The mutex is held.
func (q *readyQueue) resetSessions(sessions []*session) {
	for _, s := range sessions {
		if s.cancel == nil {
			continue // it has ended meanwhile
		}
		s.wasReset = true
		s.cancel()
		if s.admission != nil {
			q.prober.gate.Expedite(s.admission)
		}
		q.wakeIdle(s)
	}
}

// dropUnwanted drops a queue's probes that no session has and no caller waits for, such as returned rows whose decoy was not asked yet.
func (p *Prober) dropUnwanted(q *readyQueue) {
	var unsent []*probe
	add := func(list *probeList) {
		for pr, n := list.first, list.n; n > 0; pr, n = pr.next, n-1 {
			unsent = append(unsent, pr)
		}
	}
	q.mu.Lock()
	for _, dq := range q.domainQueues {
		for class := range dq.queues {
			add(&dq.queues[class])
		}
		add(&dq.decoy.waiting)
	}
	for _, hq := range q.hostQueues {
		add(&hq.retryFirst)
	}
	q.mu.Unlock()
	for _, pr := range unsent {
		if p.inFlight.removeWaiter(pr, nil) {
			p.rows.Add(-1)
		}
	}
}
