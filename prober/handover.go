package prober

import (
	"context"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire/timing"
)

// A narrow route has one source of the cluster at a time. The source that loses it may read replies for timing.CloseTimeout;
// then it resets its remaining connections, so that the receiver never counts those of both. Otherwise a connection whose path
// has failed would stay open for as long as a reply may take.

// afterHangUpTime calls f after timing.CloseTimeout, unless the node stops first: then all sessions end within stopTime.
func (p *Prober) afterHangUpTime(f func()) {
	p.spawn(func(soft, _ context.Context) {
		over := time.NewTimer(timing.CloseTimeout)
		defer over.Stop()
		select {
		case <-over.C:
			f()
		case <-soft.Done():
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

// hangUpIsolated resets all sessions at narrow routes, if the node has been isolated for timing.CloseTimeout.
func (p *Prober) hangUpIsolated() {
	if !p.slots.ClosedFor(timing.CloseTimeout, time.Now()) {
		return
	}
	for _, q := range p.allQueues() {
		if q.provider.Kind == engine.KindNarrow {
			q.mu.Lock()
			q.resetSessions(q.working)
			q.mu.Unlock()
		}
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
	return len(p.waiters) > 0 || p.retry
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

// register adds a session to the working ones, so that it can be reset. The mutex is held.
func (q *readyQueue) register(s *session, cut context.CancelFunc) {
	s.cancel, s.workingIndex = cut, len(q.working)
	q.working = append(q.working, s)
}

// unregister removes a session from the working ones. The mutex is held.
func (q *readyQueue) unregister(s *session) {
	last := len(q.working) - 1
	q.working[s.workingIndex] = q.working[last]
	q.working[s.workingIndex].workingIndex = s.workingIndex
	q.working[last] = nil
	if q.working = q.working[:last]; last == 0 {
		q.working = nil
	}
	s.cancel = nil
}

// dropUnwanted drops a queue's probes that no caller waits for, such as returned rows whose decoy was not asked yet.
func (p *Prober) dropUnwanted(q *readyQueue) {
	for _, waits := range q.unsentProbes() {
		if p.inFlight.dropUnwanted(waits) {
			p.rows.Add(-1)
		}
	}
}

// unsentProbes lists the probes in the queue that no session has.
func (q *readyQueue) unsentProbes() (all []*probe) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := func(list *probeList) {
		for p := list.first; p != nil; p = p.next {
			all = append(all, p)
		}
	}
	for _, dq := range q.domainQueues {
		for class := range dq.queues {
			of(&dq.queues[class])
		}
		of(&dq.decoy.waiting)
	}
	for _, hq := range q.hostQueues {
		of(&hq.retryFirst)
	}
	return all
}
