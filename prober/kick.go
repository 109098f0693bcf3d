package prober

import (
	"slices"
	"time"
)

// kicked wakes the lane from outside.
func (l *lane) kicked(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kick(now)
}

// kick gives work to idle sessions and starts new ones, as far as budgets and work go. The mutex is held.
func (l *lane) kick(now time.Time) {
	if l.dead {
		return
	}
	for n := l.ready[single].n; n > 0; n-- {
		ok, more := l.serve(single, now)
		if !ok {
			break
		}
		n += more
	}
	l.heedShort(now)
	shut := false // to long jobs
	for n := l.ready[short].n + l.ready[bulk].n; n > 0; n-- {
		both := l.ready[short].n > 0 && l.ready[bulk].n > 0 && !shut
		who, sessions := l.opened.whose(both, l.ready[short].n > 0), l.sessions
		ok, more := l.serve(who, now)
		if !ok && who == bulk && l.ready[short].n > 0 && !shut {
			shut = true // their pace need not be that of short ones
			continue
		}
		if !ok {
			break
		}
		if both {
			l.opened.took(who, l.sessions-sessions)
		}
		n += more
	}
}

// serve gives the next group of a priority a session, if it is worth one: an idle one, or a new one; or it leaves it to those at its
// address, or has that looked up. Not ok when none is to be had: the others would fare no better. One more when the group has use for
// another and stands in the ring again.
func (l *lane) serve(who priority, now time.Time) (ok bool, more int) {
	g := l.ready[who].pop()
	g.ready[who] = false
	if who == single && g.queued[single] > 0 {
		l.hurry(g)
	}
	switch {
	case !g.needs(who, l):
		l.tidyGroup(g)
		return true, 0
	case l.wakeIdle(g):
		if g.needs(who, l) {
			l.ringGroup(g, who)
		}
		return true, 0
	case l.locate(g, who, now), l.join(g, who, now):
		return true, 0
	case !l.start(g, who, now):
		if g.sessions == 0 && l.attended(g) {
			l.stay(g, who, now)
			return true, 0
		}
		if l.ringGroup(g, who); g.sessions == 0 {
			l.ready[who].promote() // it is the next to get a connection
		}
		return false, 0
	case !g.needs(who, l):
		return true, 0
	}
	l.ringGroup(g, who)
	return true, 1
}

// needs reports work of a priority for which one session more is worth its connection. The first session is worth it always;
// another one when those there are have more than one transaction each before them.
func (g *group) needs(who priority, l *lane) bool {
	work := g.waiting()
	switch who {
	case short:
		if g.queued[short]+g.decoysFor(short) == 0 {
			return false // the others have their own ring
		}
	case single:
		work = g.queued[single] + g.decoysFor(single)
	}
	if work == 0 || g.blocked && who <= g.deny {
		return false
	}
	return len(g.idle) > 0 || work > g.sessions*g.worth(l)
}

// decoysFor counts the decoys that are wanted for somebody of a priority.
func (g *group) decoysFor(who priority) int { return g.cutoff[who].n + g.wanted[who].n }

// worth is how many waiting probes are worth a connection of their own: as many as one bore, where a far host closes early.
func (g *group) worth(l *lane) int {
	if g.bore > 0 && l.far.away() {
		return min(g.bore, l.worth())
	}
	return l.worth()
}

// worth is how many waiting probes are worth a connection of their own. A far host that takes few a transaction is asked in groups
// of them; what that takes of time, the distance knows.
func (l *lane) worth() int {
	lim := &l.pace.limits
	n := within(maxTransaction, lim.RefusalsPerConnection, lim.RecipientsPerConnection)
	switch few := within(n, lim.RecipientsPerTransaction); {
	case lim.Connections > 0:
		return few
	case l.far.away():
		return l.far.worth(4 * n)
	default:
		return 4 * few
	}
}

// within is n, or the least limit that there is; 0 is none.
func within(n int, limits ...int) int {
	for _, limit := range limits {
		if limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// wakeIdle hands the group's work to a session that waits for it.
func (l *lane) wakeIdle(g *group) bool {
	if len(g.idle) == 0 {
		return false
	}
	s := g.idle[len(g.idle)-1]
	l.unidle(s)
	s.wake <- struct{}{} // has room: a session is idle once
	return true
}

// hurry lets a session of the group through the turnstile: a single waits for it.
func (l *lane) hurry(g *group) {
	for _, t := range g.outside {
		if l.prober.stile.hurry(t) {
			return
		}
	}
}

// unidle takes a session from those that wait; false when somebody else has.
func (l *lane) unidle(s *session) bool {
	i := slices.Index(s.group.idle, s)
	if i < 0 {
		return false
	}
	s.group.idle = slices.Delete(s.group.idle, i, i+1)
	if t := s.site; t != nil {
		t.idle = slices.DeleteFunc(t.idle, func(other *session) bool { return other == s })
	}
	l.idlers--
	return true
}

// start reserves a connection for a group and starts its session. When it may not, it sees to it that the lane is kicked
// when it may.
func (l *lane) start(g *group, who priority, now time.Time) bool {
	if l.shut(now) {
		if l.sentAway(now) {
			l.arm(l.pace.rest, now)
		}
		return false
	}
	if wait := l.opens(); now.Before(wait) {
		l.arm(wait, now)
		return false
	}
	if l.pace.limits.Connections == 0 && l.sessions >= l.far.cap(l.prober.cfg.LaneCap, l.prober.cfg.MaxSessions, g.sessions) {
		if !l.attended(g) {
			l.starve(g)
		}
		return false
	}
	if n, d := l.pace.room(&connPace{}, who, now); n == 0 {
		l.await(d, now)
		return false
	}
	if d := l.pace.connect(who, now); d.denied {
		if d.until.IsZero() && !l.attended(g) {
			l.starve(g)
		}
		l.await(d, now)
		return false
	}
	if !l.prober.slots.take(l, who) {
		l.pace.unconnect()
		return false
	}
	if !l.begin(g, who, now) {
		l.pace.unconnect()
		l.prober.slots.free()
		return false
	}
	g.sessions++
	g.waits, g.tired = time.Time{}, false
	l.sessions++
	return true
}

// begin begins a session for which lane and node have room, if the source lets it.
func (l *lane) begin(g *group, who priority, now time.Time) bool {
	s := newSession(l, g, who)
	wait, canary := l.egress.tryAt(l.key.route, g.knock, l.scaled(canaryRest), now)
	if now.Before(wait) {
		l.arm(wait, now)
		return false
	}
	s.canary = canary
	l.arrive(s, g.at)
	if !l.prober.spawn(s.run) {
		l.depart(s)
		return false
	}
	return true
}

// starve makes room for a group that finds all connections taken: an idle session of another one leaves at once, a busy one soon,
// and one that expects calls at its address when its linger is over.
func (l *lane) starve(g *group) {
	l.starved, l.hungry = true, l.hungry || g.urgent()
	if l.idlers == 0 {
		return
	}
	for _, other := range l.groups {
		if other == g {
			continue
		}
		for _, s := range other.idle {
			if !s.expectsCalls() {
				l.dismiss(s)
				return
			}
		}
	}
}

// dismiss ends an idle session at once.
func (l *lane) dismiss(s *session) {
	l.unidle(s)
	s.leave = true
	s.wake <- struct{}{}
}

// await sees to it that the lane is kicked when a denial may have ended.
func (l *lane) await(d denial, now time.Time) {
	switch {
	case d.lease:
		l.prober.ledger.ask(&l.account)
	case !d.until.IsZero():
		l.arm(d.until, now)
	}
}

// arm has the lane kicked at a time, or before.
func (l *lane) arm(at, now time.Time) {
	if l.timer != nil && !l.timerAt.After(at) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timerAt = at
	l.timer = time.AfterFunc(max(at.Sub(now), time.Millisecond), l.ring)
}

// ring is the timer's call.
func (l *lane) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer, l.timerAt = nil, time.Time{}
	now := time.Now()
	for _, g := range slices.Clone(l.blocked) {
		if now.Before(g.until) {
			l.arm(g.until, now)
		} else {
			l.free(g)
		}
	}
	l.tire(now)
	l.kick(now)
}

// opens is when the lane may open connections.
func (l *lane) opens() time.Time {
	if l.noConnect.After(l.notBefore) {
		return l.noConnect
	}
	return l.notBefore
}

// retreat keeps new connections back after one that brought nothing: from least to most, longer each time.
func (l *lane) retreat(least, most time.Duration, now time.Time) {
	l.backoff = min(max(2*l.backoff, least), most)
	l.noConnect = now.Add(l.backoff)
}

func (l *lane) pause(until time.Time) {
	l.stuck = false
	if until.After(l.notBefore) {
		l.notBefore = until
	}
}

// block keeps a group from starting sessions for a priority, and for those below, until its destination has room, or until a
// time; the zero time where only the destination's word can say when.
func (l *lane) block(g *group, who priority, until, now time.Time) {
	if g.told = !until.IsZero(); !g.told {
		until = now.Add(maxBlocked)
	}
	g.until, g.deny = until, who
	if !g.blocked {
		g.blocked = true
		l.blocked = append(l.blocked, g)
	}
	l.arm(until, now)
}

// free ends a group's wait for its destination.
func (l *lane) free(g *group) {
	if !g.blocked {
		return
	}
	g.blocked = false
	l.blocked = slices.DeleteFunc(l.blocked, func(b *group) bool { return b == g })
	l.ringAll(g)
}

// ringAll puts a group where kick looks for work.
func (l *lane) ringAll(g *group) {
	for _, who := range [...]priority{single, short, bulk} {
		if g.needs(who, l) {
			l.ringGroup(g, who)
		}
	}
	l.tidyGroup(g)
}

// unblock is a destination's call: it has room again. It reports that a session of the group goes to use it.
func (l *lane) unblock(g *group, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(g)
	busy := g.sessions - len(g.idle)
	l.kick(now)
	return g.sessions-len(g.idle) > busy
}
