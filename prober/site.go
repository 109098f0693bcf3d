package prober

import (
	"net/netip"
	"slices"
	"time"
)

// Customers of one provider have host names of their own, and thousands of these lead to few addresses. A connection for each would be
// one for nearly each address of a long list, where the receiver counts connections. So a session at an address of a provider
// asks there for all of its groups whose hosts are found at that address, one group after the other, as Postfix does with
// connections that it keeps (CONNECTION_CACHE_README: by destination, then by address). What DNS says of a host is what decides where
// it is asked, so a reply there is as good as one on a connection of its own. Hosts of no known provider keep their connections
// apart: it is not known of them that one server answers for all of its names alike.

// site is one address of a provider, and who is connected to it. Guarded by the lane's mutex.
type site struct {
	addr     netip.Addr
	sessions int // that are there, or on their way
	healthy  int // those that have had a recipient answered
	idle     []*session
	calls    [priorities]ring[*group] // groups without a session that have work there; some have none any more
	waiting  int                      // in all of them
	gone     int                      // of those: groups that the lane has forgotten
	turns    turns                    // of calls of short and long jobs
	moved    time.Time                // when a session went on to another group there
}

const (
	// siteLife is for how long it is believed where a host was found; what the resolver keeps is kept as long as DNS allows.
	siteLife = time.Minute
	// maxFinders is how many hosts of a lane are looked up at one time; the others wait.
	maxFinders = 64
	// callers is how many calls may wait for each session of a site before another connection is worth its price.
	callers = 4
	// siteWait is for how long they wait where no session goes on from one to another.
	siteWait = 5 * time.Second
	// siteTurn is how many transactions a session spends on a group while others call.
	siteTurn = 8
)

// shares reports a group that may be asked on whatever connection there is to its address. The mutex is held, as in all below.
func (l *lane) shares(g *group) bool { return l.sites != nil && !g.knock }

// settleAt notes where a group will be asked. Its calls at another address are over.
func (l *lane) settleAt(g *group, a netip.Addr) {
	if g.at == a {
		return
	}
	if t := l.sites[g.at]; t != nil {
		for who, calls := range g.calls {
			if calls {
				without(&t.calls[who], g)
				t.waiting--
			}
		}
		l.tidySite(t)
	}
	g.at, g.calls = a, [priorities]bool{}
}

// siteAt finds or makes a site.
func (l *lane) siteAt(a netip.Addr) *site {
	t := l.sites[a]
	if t == nil {
		t = &site{addr: a}
		l.sites[a] = t
	}
	return t
}

// tidySite forgets an address that has no session and no call.
func (l *lane) tidySite(t *site) {
	if t.sessions+t.waiting == 0 && l.sites[t.addr] == t {
		delete(l.sites, t.addr)
	}
}

// siteOf is the site of a group's host; nil where there is no session and no call, or while the host is looked up.
func (l *lane) siteOf(g *group) *site {
	if !l.shares(g) || !g.at.IsValid() || g.finding {
		return nil
	}
	return l.sites[g.at]
}

// travels reports a group that a connection may be taken to: some of it had better be first on a new one.
func (l *lane) travels(g *group) bool {
	return l.shares(g) && g.at.IsValid() && !g.finding && !g.cutOff()
}

// call has the sessions at a group's address find it, if none is its own; one that waits for more comes at once.
func (l *lane) call(g *group, who priority) {
	if g.sessions > 0 || g.calls[who] || !l.travels(g) || l.lend(g, who, time.Now()) {
		return
	}
	t := l.siteAt(g.at)
	g.calls[who] = true
	t.calls[who].push(g)
	t.waiting++
}

// pop takes the call of a priority that came first.
func (t *site) pop(who priority) *group {
	g := t.calls[who].pop()
	g.calls[who] = false
	t.waiting--
	return g
}

// hangsUp notes that the lane forgets a group that may call. The site is swept when it holds more of those than of others.
func (l *lane) hangsUp(g *group) {
	t := l.sites[g.at]
	if t == nil || g.calls == [priorities]bool{} {
		return
	}
	for _, calls := range g.calls {
		if calls {
			t.gone++
		}
	}
	if 2*t.gone <= t.waiting {
		return
	}
	t.gone, t.waiting = 0, 0
	for who := range t.calls {
		r := &t.calls[who]
		for n := r.n; n > 0; n-- {
			if g := r.pop(); l.groups[g.key] == g {
				r.push(g)
				t.waiting++
			} else {
				g.calls[who] = false
			}
		}
	}
	l.tidySite(t)
}

// next takes the group to which a session may go on: of singles, else of those jobs whose turn it is, unless a single waits elsewhere
// for a connection to end. Nil when none calls. Those whose host may have moved are looked up.
func (l *lane) next(s *session, now time.Time) *group {
	for t := s.site; t.waiting > 0; {
		both := t.calls[short].n > 0 && t.calls[bulk].n > 0
		who := single
		if t.calls[single].n == 0 {
			who = t.turns.whose(both, t.calls[short].n > 0)
		}
		if !s.mayServe(who, now) || l.hungry && who != single {
			return nil
		}
		switch g := t.pop(who); {
		case l.groups[g.key] != g:
			t.gone--
		case g.sessions > 0 || !g.needs(who, l):
		case !l.travels(g):
			l.ringAll(g)
		case l.outdated(g, now):
			if !l.seek(g) {
				l.ringAll(g)
			}
		default:
			if both && who != single {
				t.turns.took(who, 1)
			}
			return g
		}
	}
	return nil
}

// mayServe reports that a session may go to somebody's group: one that jobs could not have opened is left to singles.
func (s *session) mayServe(who priority, now time.Time) bool {
	p := &s.lane.pace
	return p.limits.Connections == 0 || s.who != single || p.open <= p.connections(who, now)
}

// expectsCalls reports a session at whose address groups may soon call: hosts of the lane are being looked up, and no single waits for
// a connection to end. Such a session lingers although groups of other addresses find no connection. Were it closed in each moment in
// which nothing calls, then wherever look-ups take longer than replies, each few of the hosts found would cost a new connection.
func (s *session) expectsCalls() bool { return s.site != nil && s.lane.finders > 0 && !s.lane.hungry }

// goOn takes a session to a group that calls at its address. False when none does.
func (l *lane) goOn(s *session, now time.Time) bool {
	if s.site == nil || s.leave || s.farewell {
		return false
	}
	g := l.next(s, now)
	if g == nil {
		return false
	}
	old := s.group
	if l.shift(s, g, now); old.waiting() > 0 {
		l.kick(now)
	}
	return true
}

// shift makes a session that has nothing under way one of another group. Its own goroutine does so, or who has taken it from those
// that are idle.
func (l *lane) shift(s *session, g *group, now time.Time) {
	old := s.group
	old.sessions--
	g.sessions++
	if s.answered {
		old.healthy--
	}
	s.group, s.answered, s.before, s.site.moved = g, false, s.used.transactions, now
	g.waits, g.tired = time.Time{}, false
	l.hungry = l.hungry && !g.urgent()
	l.ringAll(old)
}

// lend wakes a session that waits for more at a group's address, for that group. False when none does.
func (l *lane) lend(g *group, who priority, now time.Time) bool {
	t := l.siteOf(g)
	if t == nil || g.cutOff() || l.outdated(g, now) {
		return false
	}
	for _, s := range slices.Backward(t.idle) {
		if s.mayServe(who, now) {
			l.unidle(s)
			l.shift(s, g, now)
			s.wake <- struct{}{} // has room: a session is idle once
			return true
		}
	}
	return false
}

// attended reports a group to which some session will come. A single does not wait for that.
func (l *lane) attended(g *group) bool {
	t := l.siteOf(g)
	return g.sessions > 0 || t != nil && t.sessions > 0 && !g.tired && !g.cutOff() && !g.urgent()
}

// joined is a group that waits for the sessions at its address, and since when.
type joined struct {
	group *group
	at    time.Time
}

// join leaves a group of jobs to the sessions at its address, where it has little to ask and few wait with it. False where it had
// better get a connection of its own.
func (l *lane) join(g *group, who priority, now time.Time) bool {
	t := l.siteOf(g)
	switch {
	case who == single, g.sessions > 0, g.tired, g.cutOff():
		return false
	case t == nil, t.sessions == 0, t.waiting > callers*t.sessions, g.waiting() > l.worth():
		return false
	}
	l.stay(g, who, now)
	return true
}

// stay has a group wait for the sessions at its address.
func (l *lane) stay(g *group, who priority, now time.Time) {
	l.call(g, who)
	if g.waits.IsZero() {
		g.waits = now
		l.joined.push(joined{g, now})
	}
	l.arm(l.joined.peek().at.Add(siteWait), now)
}

// tire ends the wait of groups at whose address no session moves on any more: those that are there may be held up for long.
func (l *lane) tire(now time.Time) {
	for l.joined.n > 0 {
		if at := l.joined.peek().at.Add(siteWait); now.Before(at) {
			l.arm(at, now)
			return
		}
		j := l.joined.pop()
		g := j.group
		if !g.waits.Equal(j.at) {
			continue
		}
		g.waits = time.Time{}
		switch t := l.siteOf(g); {
		case g.sessions > 0 || !g.needs(bulk, l):
		case t != nil && t.sessions > 0 && now.Sub(t.moved) < siteWait:
			l.stay(g, bulk, now)
		default:
			g.tired = true
			l.ringAll(g)
		}
	}
}

// arrive books a session at an address.
func (l *lane) arrive(s *session, a netip.Addr) {
	if !l.shares(s.group) || !a.IsValid() || s.site != nil && s.site.addr == a {
		return
	}
	l.depart(s)
	s.site = l.siteAt(a)
	s.site.sessions++
}

// depart ends it. Who called in vain looks for a connection of its own.
func (l *lane) depart(s *session) {
	t := s.site
	if t == nil {
		return
	}
	s.site = nil
	if s.progress {
		t.healthy--
	}
	if t.sessions--; t.sessions > 0 {
		return
	}
	if l.sites[t.addr] == t {
		delete(l.sites, t.addr)
	}
	for who := range t.calls {
		for t.calls[who].n > 0 {
			l.ringAll(t.pop(priority(who)))
		}
	}
}

// leaves ends a session's part at its address, before it says goodbye: that may take a while.
func (l *lane) leaves(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.site != nil {
		l.depart(s)
		l.kick(time.Now())
	}
}

// proceed notes that a recipient was answered.
func (s *session) proceed() {
	if !s.answered {
		s.answered = true
		s.group.healthy++
	}
	if !s.progress {
		s.progress = true
		if s.site != nil {
			s.site.healthy++
		}
	}
}

// proven reports a group whose connections work: somebody is connected who was answered by its host or, where this session came to
// its address in vain, by others there.
func (s *session) proven(g *group) bool {
	return g.healthy > 0 || s.dialled && s.site != nil && s.site.healthy > 0
}
