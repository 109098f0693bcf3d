package prober

import (
	"net/netip"
	"sync"
	"time"

	"probity/engine"
)

// destination is the budget of one identity towards one address, shared by all routes of no known provider that lead
// there: fifty thousand vanity MX names may be one hoster.
type destination struct {
	account
	key     destinationKey
	waiting [priorities]map[*lane]*group // lanes that found no room, each for one priority; guarded by the account's mutex
	turns   turns                        // of those that wait for short and long jobs; so guarded, too
	refs    int                          // guarded by the registry's mutex
}

type destinationKey struct {
	egress string
	addr   netip.Addr
}

type destinations struct {
	mu  sync.Mutex // guards all
	all map[destinationKey]*destination
}

// destinationLimits are those of an unknown route that count for an address as well.
func destinationLimits(l engine.Limits) engine.Limits {
	l.RecipientsPerTransaction, l.RecipientsPerConnection, l.TransactionsPerConnection, l.RefusalsPerConnection = 0, 0, 0, 0
	return l
}

// acquire finds or makes the destination; nil when an address has no limits of its own.
func (ds *destinations) acquire(p *Prober, e *egress, addr netip.Addr, now time.Time) *destination {
	limits := destinationLimits(e.scaled(p.table.Load().Unknown.Limits, now))
	if limits == (engine.Limits{}) {
		return nil
	}
	k := destinationKey{e.name, addr}
	if d := ds.find(k, nil); d != nil {
		return d
	}
	d := &destination{key: k}
	d.account = account{name: "destination " + e.name + " " + addr.String(), pace: newPace(limits, now), wake: d.roomAgain}
	d.pace.calls = &p.calls
	if err := d.open(p.cfg.Cache, now); err != nil {
		p.tellUnread(err)
	}
	return ds.find(k, d)
}

// find returns the destination, or fresh where there is none, with one user more.
func (ds *destinations) find(k destinationKey, fresh *destination) *destination {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[k]
	if d == nil && fresh != nil {
		d = fresh
		ds.all[k] = d
	}
	if d != nil {
		d.refs++
	}
	return d
}

func (ds *destinations) release(d *destination) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.refs--
}

// reserveDestination takes a connection from the budget of an address. When there is none, the group waits for it.
func (s *session) reserveDestination(addr netip.Addr) bool {
	l, p, now := s.lane, s.lane.prober, time.Now()
	d := p.dests.acquire(p, s.from, addr, now)
	if d == nil {
		return true
	}
	l.mu.Lock()
	steady := l.pace.even.until
	l.mu.Unlock()
	d.mu.Lock()
	d.heed(s.who, steady, now)
	den := d.may(s.who, now)
	if !den.denied {
		d.pace.connect(s.who, now)
	}
	d.mu.Unlock()
	if !den.denied {
		s.dest = d
		return true
	}
	s.awaitDestination(d, den, now)
	p.dests.release(d)
	l.prober.metrics.crowded.Inc()
	return false
}

// heed takes the word of one of its routes: until when that has a long backlog, and who asks. The mutex is held.
func (d *destination) heed(who priority, steady, now time.Time) {
	e := &d.pace.even
	if steady.After(e.until) {
		e.until = steady
	}
	if who == short {
		e.short(now)
	}
}

// may says whether a connection is worth beginning: there is room for it and for a recipient on it. The mutex is held.
func (d *destination) may(who priority, now time.Time) denial {
	if n, den := d.pace.room(&connPace{}, who, now); n == 0 {
		return den
	}
	return d.pace.mayConnect(who, now)
}

// awaitDestination blocks the group until the destination has room. It is blocked before it is known to wait, and asks once
// more after, so that no word of the destination is missed. Room that is not for its priority is offered to those above: the word
// of it may have been spent on this group.
func (s *session) awaitDestination(d *destination, den denial, now time.Time) {
	l, least := s.lane, s.who
	l.mu.Lock()
	l.block(s.group, s.who, den.until, now)
	l.mu.Unlock()
	d.mu.Lock()
	d.await(l, s.group, s.who)
	for den = d.may(least, now); den.denied && !den.lease && least < single; den = d.may(least, now) {
		least++
	}
	if den.lease {
		l.prober.ledger.ask(&d.account)
	}
	d.mu.Unlock()
	if !den.denied {
		d.offer(least, now)
	}
}

// await notes that a group of a lane waits for room. The mutex is held.
func (d *destination) await(l *lane, g *group, who priority) {
	for _, lanes := range d.waiting {
		delete(lanes, l)
	}
	if d.waiting[who] == nil {
		d.waiting[who] = map[*lane]*group{}
	}
	d.waiting[who][l] = g
}

// maxBlocked bounds the wait for a word of the destination.
const maxBlocked = 30 * time.Second

func (d *destination) connected(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pace.connected(now)
}

// closed gives a connection back and lets one who waits have it.
func (d *destination) closed(now time.Time) {
	d.mu.Lock()
	d.pace.closed()
	d.mu.Unlock()
	d.roomAgain(now)
}

// roomAgain wakes one lane that waits and has use for room.
func (d *destination) roomAgain(now time.Time) { d.offer(bulk, now) }

// offer wakes one lane that waits for a priority, or a higher one, and has use for room. Who finds none for what work it has waits
// for less than before and offers it to those above, so that each word of room is passed on a few times only.
func (d *destination) offer(least priority, now time.Time) {
	for l, g := d.nextWaiting(least); l != nil; l, g = d.nextWaiting(least) {
		if l.unblock(g, now) {
			return
		}
	}
}

// nextWaiting is whose turn it is: singles come first.
func (d *destination) nextWaiting(least priority) (*lane, *group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	who, shorts := single, len(d.waiting[short]) > 0
	if len(d.waiting[single]) == 0 {
		both := shorts && len(d.waiting[bulk]) > 0 && least == bulk
		if who = d.turns.whose(both, shorts); both {
			d.turns.took(who, 1)
		}
	}
	if who >= least {
		for l, g := range d.waiting[who] {
			delete(d.waiting[who], l)
			return l, g
		}
	}
	return nil, nil
}
