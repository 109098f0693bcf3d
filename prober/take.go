package prober

import (
	"time"

	"probity/engine/smtp"
)

// ask is one recipient of a transaction: a target, or the decoy of a place when p is nil.
type ask struct {
	p     *probe
	place *place
	long  bool // for a row of a long job
}

// take fills the session's next transaction and reserves its budgets: singles first, then decoys, then jobs. When there is
// nothing to send it says what stands against it; no denial means that there is no work. More transactions follow in the same
// group, for a receiver that takes one recipient a transaction, or one domain, would else cost a round trip for each.
func (l *lane) take(s *session, now time.Time) denial {
	s.asks, s.rcpts = s.asks[:0], s.rcpts[:0]
	if now.Before(l.notBefore) && !(s.farewell && l.stuck) {
		return denial{denied: true, until: l.notBefore}
	}
	l.heedShort(now)
	if dest := s.dest; dest != nil {
		dest.mu.Lock() // other lanes look at it too: until what there is room for is reserved
		defer dest.mu.Unlock()
	}
	rooms, denials := s.rooms(now)
	if l.fill(s, rooms, now) {
		s.sent = l.heard
		for more := s.together(); more > 0; more = s.together() {
			rooms, _ := s.rooms(now)
			for who := range rooms {
				rooms[who] = min(rooms[who], more)
			}
			if !l.fill(s, rooms, now) {
				break
			}
		}
		s.group.launch(s)
		s.leave = s.leave || s.farewell
		return denial{}
	}
	g := s.group
	switch {
	case s.farewell && !denials[bulk].lease:
		s.leave = true
	case s.farewell:
		return denials[bulk]
	case rooms[single] == 0 && g.waiting() > 0:
		return s.spent(denials[single])
	case rooms[short] == 0 && g.waiting() > g.queued[single]:
		return s.spent(denials[short])
	case rooms[bulk] == 0 && g.waiting() > g.queued[single]+g.queued[short]:
		return s.spent(denials[bulk])
	case g.cutOff() && s.used.transactions > 0:
		s.leave = true // what there is wants a new connection
	}
	return denial{}
}

// fill adds a transaction to the group, of so many recipients at most, and reserves its budgets. False when it would be empty.
func (l *lane) fill(s *session, rooms [priorities]int, now time.Time) bool {
	g, from := s.group, len(s.asks)
	f := filler{l: l, s: s, oneDomain: l.provider.OneDomain || s.oneDomain || g.oneDomain}
	for who := range rooms {
		rooms[who] += from
	}
	switch {
	case s.farewell:
		f.allDecoys(rooms, now)
	case !f.again(rooms, now):
		f.probes(&g.rings[single], single, rooms[single])
		f.allDecoys(rooms, now)
		f.jobs(rooms)
	}
	n := len(s.asks) - from
	if n == 0 {
		return false
	}
	s.rcpts[from].Anew = true
	s.reserve(n)
	l.prober.metrics.transactions.Inc()
	return true
}

// together is how many recipients more the group may hold, in another transaction: none where the connection has not answered
// yet, or the host has shown that it bears only so much.
func (s *session) together() int {
	if !s.progress || s.group.batch > 0 || s.group.apart || !s.conn.Extensions().Pipelining {
		return 0
	}
	return s.lane.far.group(maxTransaction) - len(s.asks)
}

// filler fills one transaction.
type filler struct {
	l         *lane
	s         *session
	oneDomain bool
	domain    string // of the transaction, where it may have but one
}

// fits reports that a domain may be in this transaction.
func (f *filler) fits(domain string) bool {
	return !f.oneDomain || f.domain == "" || f.domain == domain
}

func (f *filler) put(p *probe, pl *place) {
	f.domain = pl.domain
	pl.flying++
	who := bulk
	if p != nil {
		who = p.who
	} else {
		who = pl.decoy.who()
	}
	f.s.asks = append(f.s.asks, ask{p, pl, who == bulk})
	if p != nil {
		f.s.rcpts = append(f.s.rcpts, smtp.Rcpt{Local: p.ev.Address.Local(), Domain: pl.domain})
	}
}

// probe takes a probe out of its queue.
func (f *filler) probe(p *probe) {
	f.l.dequeue(p)
	p.asked++
	f.put(p, p.place)
}

// probes takes probes of one priority while the transaction holds fewer than room. A place that has more goes to the ring's end,
// so that no domain keeps the others waiting.
func (f *filler) probes(r *ring[*place], who priority, room int) {
	for looked := r.n; looked > 0 && len(f.s.asks) < room; looked-- {
		pl := r.pop()
		q := &pl.queues[who]
		for fits := f.fits(pl.domain); fits && q.n > 0 && len(f.s.asks) < room; {
			f.probe(q.first)
		}
		if q.n > 0 {
			r.push(pl)
		} else {
			pl.ringed[who] = false
			f.l.tidy(pl)
		}
	}
}

// jobs takes rows of jobs: first of those whose turn it is, and of the others what room is left.
func (f *filler) jobs(rooms [priorities]int) {
	l, g := f.l, f.s.group
	both := l.queued[short] > 0 && l.queued[bulk] > 0
	first, then := short, bulk
	if l.served.whose(both, l.queued[short] > 0) == bulk {
		first, then = bulk, short
	}
	for _, who := range [...]priority{first, then} {
		before := len(f.s.asks)
		f.probes(&g.rings[who], who, rooms[who])
		if both {
			l.served.took(who, len(f.s.asks)-before)
		}
	}
}

// allDecoys takes the decoys that are wanted, of the highest priority first.
func (f *filler) allDecoys(rooms [priorities]int, now time.Time) {
	for _, who := range [...]priority{single, short, bulk} {
		r := &f.s.group.wanted[who]
		f.decoys(r, r.n, rooms[who], now)
	}
}

// decoys takes decoys of one priority that are wanted, looking at so many at most, while the transaction holds fewer than room.
func (f *filler) decoys(r *ring[*place], look, room int, now time.Time) {
	for looked := min(look, r.n); looked > 0 && len(f.s.asks) < room; looked-- {
		pl := r.pop()
		if pl.decoy.waiting.n == 0 { // those who wanted it have gone
			pl.decoy.state = decoyUnknown
			f.l.tidy(pl)
			continue
		}
		if !f.fits(pl.domain) {
			r.push(pl)
			continue
		}
		pl.decoy.state = decoyAsking
		pl.decoy.asked++
		f.put(nil, pl)
		f.s.rcpts = append(f.s.rcpts, smtp.Rcpt{Local: decoyLocal(f.s.keyer, pl.domain, now), Domain: pl.domain})
	}
}

// rooms is room for each priority, and why there is none. The destination's mutex is held too.
func (s *session) rooms(now time.Time) (rooms [priorities]int, denials [priorities]denial) {
	rooms[single], denials[single] = s.room(single, now)
	rooms[bulk], denials[bulk] = s.room(bulk, now)
	if rooms[short], denials[short] = rooms[bulk], denials[bulk]; s.apart(now) {
		rooms[short], denials[short] = s.room(short, now)
	}
	return rooms, denials
}

// apart reports that short jobs may have more than long ones, on the route or at its destination, which hears of them here.
func (s *session) apart(now time.Time) bool {
	l, dest := s.lane, s.dest
	if dest == nil {
		return l.pace.apart(now)
	}
	if l.queued[short] > 0 {
		dest.heed(short, l.pace.even.until, now)
	}
	return l.pace.apart(now) || dest.pace.apart(now)
}

// room is how many recipients may be sent now, by the lane, the destination, the server's own word and what was learnt of it.
func (s *session) room(who priority, now time.Time) (int, denial) {
	n, d := s.lane.pace.room(&s.used, who, now)
	if dest := s.dest; dest != nil && n > 0 {
		m, dd := dest.pace.room(&s.destUsed, who, now)
		if n = min(n, m); m == 0 {
			d = dd
			if dd.lease {
				s.destLease = true
			}
		}
	}
	if g := s.group.batch; g > 0 {
		n = min(n, g)
	}
	if s.lane.pace.limits.Connections == 0 {
		n = min(n, s.lane.far.transaction())
	}
	if s.maxRcpt > 0 {
		n = min(n, s.maxRcpt)
	}
	if s.maxMail > 0 && s.used.transactions >= s.maxMail {
		n = 0
	}
	return n, d
}

// reserve takes n recipients and a transaction from all budgets. The destination's mutex is held too.
func (s *session) reserve(n int) {
	s.lane.pace.reserve(&s.used, n)
	longs := long(s.asks[len(s.asks)-n:])
	s.lane.pace.even.out += longs
	s.used.transactions++
	if dest := s.dest; dest != nil {
		dest.pace.reserve(&s.destUsed, n)
		dest.pace.even.out += longs
	}
}

// long is how many of the asked are for rows of long jobs.
func long(asks []ask) (n int) {
	for i := range asks {
		if asks[i].long {
			n++
		}
	}
	return n
}

// settle returns to all budgets what a transaction of n recipients has not used: `unsent` were never sent, `accepted` were
// accepted. Of the rest, `mild` were put off without a word about the mailbox: they count on the connection, not in the hour.
func (s *session) settle(n, unsent, accepted, mild int, now time.Time) {
	book := func(p *pace, c *connPace) {
		p.release(c, unsent)
		p.settle(c, n-unsent, accepted, mild, now)
	}
	book(&s.lane.pace, &s.used)
	if dest := s.dest; dest != nil {
		dest.mu.Lock()
		book(&dest.pace, &s.destUsed)
		dest.mu.Unlock()
	}
}

// spend settles n recipients of long jobs, of which `refused` count in the hour, with the paces of those.
func (s *session) spend(n, refused int, now time.Time) {
	s.lane.pace.spend(n, refused, now)
	if dest := s.dest; dest != nil {
		dest.mu.Lock()
		dest.pace.spend(n, refused, now)
		dest.mu.Unlock()
	}
}

// spent tells a denial that waiting can lift from a connection that is used up.
func (s *session) spent(d denial) denial {
	if !d.denied {
		s.leave = true
	}
	d.denied = true
	return d
}
