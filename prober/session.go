package prober

import (
	"context"
	"slices"
	"time"

	"probity/engine/smtp"
	"probity/store/cache"
)

// session is one connection of a lane to a host, and the goroutine that works on it.
type session struct {
	lane  *lane
	group *group   // see lane.shift for who may change it
	who   priority // for whom it was opened
	dest  *destination
	from  *egress // the lane's, or the one that reaches IPv6 hosts
	site  *site   // where it is connected to, or will be; guarded by the lane's mutex
	conn  *smtp.Session
	name  uint32 // of the connection, in what is heard on it
	keyer *cache.Keyer

	used, destUsed connPace // guarded by the lane's and the destination's mutex
	before         int      // transactions before it came to its group
	dialled        bool
	began          time.Time // when it was
	plain          bool      // TLS has failed here before
	maxRcpt        int       // the server's own words (RFC 9422); 0 for none
	maxMail        int
	oneDomain      bool
	destLease      bool // the destination wants a lease

	transactions
	sent     uint64 // the lane's count of answers when they were taken
	progress bool   // some recipient was answered on this connection
	answered bool   // and some of its group
	accepted map[string]bool

	wake chan struct{}
	// Guarded by the lane's mutex:
	cut     context.CancelFunc // ends it at once; nil before it begins and after its end
	severed bool               // it was: see hangUp
	seat    int                // its index among those that work
	turn    *turn              // it waits at the turnstile

	canary time.Time // of a source that rested everywhere when it began: when the next one may go
	leave  bool      // the next take finds nothing
	inside bool      // of the turnstile
	far    bool      // its host is: it waits for replies outside (away.go)

	farewell bool // its host rests: what it takes now is its last, and of decoys alone (sticky.go)
}

// transactions are what a session asks at one time, and what came of it. Its memory is used again, by the next one too.
type transactions struct {
	asks  []ask
	rcpts []smtp.Rcpt
	seen  []answer
	told  []bool  // by ask: it was answered
	out   []ended // empty between two transactions
}

func newSession(l *lane, g *group, who priority) *session {
	return &session{lane: l, name: l.prober.connections.Add(1), group: g, who: who, from: l.egress, plain: g.plain, wake: make(chan struct{}, 1), keyer: l.prober.cfg.Cache.Keyer(),
		accepted: map[string]bool{}, transactions: l.prober.spare.transactions()}
}

// run is the session's life: connect, ask, take leave. soft ends when the node stops, hard when it can wait no longer, as does cut.
func (s *session) run(soft, hard context.Context) {
	hard, cut := context.WithCancel(hard)
	defer cut()
	s.lane.mu.Lock()
	s.lane.begins(s, cut)
	s.far = s.lane.isFar()
	s.lane.mu.Unlock()
	defer s.end()
	if soft.Err() != nil || !s.pass(soft) || s.lane.prober.slots.closed() {
		return
	}
	began := time.Now()
	if !s.connect(hard) {
		return
	}
	s.lane.reached(time.Since(began), s.conn.Wait(), s.conn.Echo())
	for s.next(soft) {
		ok := s.ask(hard)
		s.stepOut()
		if !ok {
			break
		}
	}
	s.stepOut()
	s.lane.leaves(s)
	s.quit(hard)
}

// pass takes the session through the turnstile, before whatever keeps the processor busy. False when ctx ended first.
func (s *session) pass(ctx context.Context) bool {
	if s.inside {
		return true
	}
	ts, l := s.lane.prober.stile, s.lane
	t := ts.enter()
	if t == nil {
		s.inside = true
		return true
	}
	l.mu.Lock()
	if s.group.queued[single] > 0 {
		ts.hurry(t)
	}
	s.group.outside = append(s.group.outside, t)
	if s.turn = t; s.severed {
		ts.hurry(t)
	}
	l.mu.Unlock()
	s.inside = ts.wait(ctx, t)
	l.mu.Lock()
	s.turn = nil
	s.group.outside = slices.DeleteFunc(s.group.outside, func(other *turn) bool { return other == t })
	l.mu.Unlock()
	return s.inside
}

// stepOut makes room in the turnstile.
func (s *session) stepOut() {
	if s.inside {
		s.inside = false
		s.lane.prober.stile.leave()
	}
}

// quit sends QUIT and waits for the close, as long as it may: an open connection would count against us at the peer.
func (s *session) quit(hard context.Context) {
	ctx, cancel := context.WithTimeout(hard, quitTime)
	defer cancel()
	s.conn.Quit(ctx)
}

const quitTime = 8 * time.Second

// next takes the next transaction; it waits a little for work or for budgets. False when it is time to leave.
func (s *session) next(ctx context.Context) bool {
	for ctx.Err() == nil && s.pass(ctx) {
		s.lane.mu.Lock()
		now := time.Now()
		if s.over(now) {
			s.lane.mu.Unlock()
			return false
		}
		s.far = s.lane.isFar()
		if s.used.transactions-s.before >= siteTurn && !s.group.urgent() {
			s.lane.goOn(s, now)
		}
		d := s.lane.take(s, now)
		if len(s.asks) > 0 {
			s.lane.mu.Unlock()
			return true
		}
		if !d.denied && s.lane.goOn(s, now) {
			s.lane.mu.Unlock()
			continue
		}
		wait := s.patience(d, now)
		if wait <= 0 || s.leave {
			s.lane.mu.Unlock()
			return false
		}
		l := s.lane
		s.group.idle = append(s.group.idle, s)
		if s.site != nil && !s.farewell {
			s.site.idle = append(s.site.idle, s)
		}
		l.idlers++
		l.ringAll(s.group) // a kick finds it there, also what is worth no other connection
		l.mu.Unlock()
		s.stepOut()
		if !s.rest(ctx, wait) {
			return false
		}
	}
	return false
}

// over reports a connection that takes no more. The lane's mutex is held.
func (s *session) over(now time.Time) bool {
	return s.leave || s.severed || s.used.sent > 0 && s.from.resting(now) || s.lane.prober.slots.closed() || s.yields() || s.used.sent >= maxSent
}

// maxSent is how many recipients a connection carries where the receiver names no limit. smtp bounds the bytes of a session;
// maxHeard gives each reply 1,600 of them.
const (
	maxSent  = 5000
	maxHeard = 8 << 20
)

// yields reports that others find no connection, or wait to be first on a new one, and that this one has served its turn: a longer
// one while groups call at its address, or may soon, which have little to ask each and would need a connection each.
func (s *session) yields() bool {
	const turn, longTurn = 8, 40
	if s.group.cutOff() {
		return s.used.transactions >= turn
	}
	called := s.expectsCalls() || s.site != nil && s.site.waiting > 0 && !s.lane.hungry
	return s.lane.starved && (s.used.transactions >= longTurn || s.used.transactions >= turn && !called)
}

// longLinger is how long an idle session waits for more where the receiver sets no limit to connections: as long as Postfix keeps
// one for the next message (smtp_connection_cache_time_limit). Jobs that run at one time come to a host one after the other.
const longLinger = 2 * time.Second

// patience is how long it pays to wait: for work the linger, for a budget a little longer.
func (s *session) patience(d denial, now time.Time) time.Duration {
	linger := s.lane.prober.cfg.Linger
	if s.lane.pace.limits.Connections == 0 { // else somebody may wait for this one's end
		linger = max(linger, longLinger)
	}
	switch {
	case s.lane.starved && (d.denied || !s.expectsCalls()), s.lane.prober.slots.scarce():
		return 0
	case d.lease:
		s.askLease()
		return time.Second
	case !d.denied:
		return linger
	case d.until.IsZero() || d.until.Sub(now) > 4*time.Second:
		s.lane.await(d, now)
		return 0
	}
	return d.until.Sub(now)
}

func (s *session) askLease() {
	if s.destLease {
		s.destLease = false
		s.dest.mu.Lock()
		s.dest.await(s.lane, s.group, s.who)
		s.lane.prober.ledger.ask(&s.dest.account)
		s.dest.mu.Unlock()
		return
	}
	s.lane.prober.ledger.ask(&s.lane.account)
}

// rest waits as an idle session. False when it was told to leave, or waited in vain for work.
func (s *session) rest(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-s.wake:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if !s.lane.unidle(s) {
		<-s.wake // somebody has just given it work
		return true
	}
	return s.group.waiting() > 0 && ctx.Err() == nil
}

// end gives the connection's place back and lets the others go on.
func (s *session) end() {
	s.stepOut()
	p, l, now := s.lane.prober, s.lane, time.Now()
	if s.dest != nil {
		s.dest.closed(now)
		p.dests.release(s.dest)
	}
	l.mu.Lock()
	l.ends(s)
	l.mu.Unlock()
	p.spare.putTransactions(&s.transactions)
	if s.severed {
		p.dropUnasked(l) // what it asked is in the queue again
	}
	l.mu.Lock()
	if s.dialled {
		l.pace.closed()
	} else {
		l.pace.unconnect()
	}
	l.sessions--
	s.group.sessions--
	if s.answered {
		s.group.healthy--
	}
	l.starved, l.hungry = false, false
	l.depart(s)
	l.ringAll(s.group)
	p.slots.free()
	l.kick(now)
	l.mu.Unlock()
	for next := p.slots.next(); next != nil; next = p.slots.next() {
		next.kicked(now)
	}
}
