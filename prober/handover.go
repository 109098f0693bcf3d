package prober

import (
	"context"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire/timing"
)

// A narrow route has one source of the cluster at a time. The one that loses it has timing.HangUp to hear what it has sent; then it
// resets what connections are left, so that the receiver never counts those of both. A connection whose path has failed would else
// be held for as long as a reply may take.

// afterHangUp calls f when the time has come, unless the node stops before: then all sessions end by stopTime.
func (p *Prober) afterHangUp(f func()) {
	p.spawn(func(soft, _ context.Context) {
		over := time.NewTimer(timing.HangUp)
		defer over.Stop()
		select {
		case <-over.C:
			f()
		case <-soft.Done():
		}
	})
}

// callHome sends home what is not done: the caller wants it no more. By the time of hanging up some of it may be back, here or in
// another batch: then the route has not moved.
func (v *verification) callHome() {
	lanes := map[*lane]bool{}
	for _, pr := range v.probes {
		if pr == nil {
			continue
		}
		if l := pr.lane.Load(); l != nil && l.provider.Kind == engine.KindNarrow {
			lanes[l] = true
		}
	}
	v.abandon()
	if len(lanes) > 0 {
		v.p.afterHangUp(func() {
			for l := range lanes {
				v.p.hangUpUnasked(l)
			}
		})
	}
}

// hangUpAlone ends all sessions at narrow routes, if the node has been alone for long enough.
func (p *Prober) hangUpAlone() {
	if !p.slots.closedFor(timing.HangUp, time.Now()) {
		return
	}
	for _, l := range p.allLanes() {
		if l.provider.Kind == engine.KindNarrow {
			l.mu.Lock()
			l.hangUp(l.working)
			l.mu.Unlock()
		}
	}
}

// hangUpUnasked ends a lane's sessions that ask for no caller, and if no caller waits in the lane at all, those that ask nothing.
func (p *Prober) hangUpUnasked(l *lane) {
	p.dropUnasked(l)
	l.mu.Lock()
	waits, asks := l.held, map[*session][]*probe{}
	for _, s := range l.working {
		asks[s] = nil
		for _, a := range s.asks {
			if a.p != nil {
				waits--
				asks[s] = append(asks[s], a.p)
			} else if first := a.place.decoy.waiting.first; first != nil {
				asks[s] = append(asks[s], first)
			}
		}
	}
	l.mu.Unlock()
	var unasked, silent []*session
	for s, probes := range asks {
		switch {
		case len(probes) == 0:
			silent = append(silent, s)
		case slices.ContainsFunc(probes, p.flight.awaited):
			waits++
		default:
			unasked = append(unasked, s)
		}
	}
	if waits == 0 {
		unasked = append(unasked, silent...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUp(unasked)
}

// awaited reports that somebody waits for a probe.
func (f *flight) awaited(p *probe) bool {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(p.askers) > 0 || p.retry
}

// hangUp cuts sessions off, at whatever they are. The mutex is held.
func (l *lane) hangUp(sessions []*session) {
	for _, s := range sessions {
		if s.cut == nil {
			continue // it has ended meanwhile
		}
		s.severed = true
		s.cut()
		if s.turn != nil {
			l.prober.stile.hurry(s.turn)
		}
		if l.unidle(s) {
			s.wake <- struct{}{} // has room: a session is idle once
		}
	}
}

// begins lists a session that begins, so that it can be cut off. The mutex is held.
func (l *lane) begins(s *session, cut context.CancelFunc) {
	s.cut, s.seat = cut, len(l.working)
	l.working = append(l.working, s)
}

// ends takes it out of the list. The mutex is held.
func (l *lane) ends(s *session) {
	last := len(l.working) - 1
	l.working[s.seat] = l.working[last]
	l.working[s.seat].seat = s.seat
	l.working[last] = nil
	if l.working = l.working[:last]; last == 0 {
		l.working = nil
	}
	s.cut = nil
}

// dropUnasked drops probes in a lane that no caller waits for, such as rows that went home and whose decoy was not asked yet.
func (p *Prober) dropUnasked(l *lane) {
	for _, waits := range l.waiting() {
		if p.flight.abandon(waits) {
			p.rows.Add(-1)
		}
	}
}

// waiting lists the probes in the lane that no session has.
func (l *lane) waiting() (all []*probe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := func(q *list) {
		for p := q.first; p != nil; p = p.next {
			all = append(all, p)
		}
	}
	for _, pl := range l.places {
		for who := range pl.queues {
			of(&pl.queues[who])
		}
		of(&pl.decoy.waiting)
	}
	for _, g := range l.groups {
		of(&g.again)
	}
	return all
}
