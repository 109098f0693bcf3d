package prober

import (
	"net/netip"
	"sync"
	"time"

	"probity/engine"
)

// addressLimit is the budget of one source towards one address. All routes of unknown providers that lead there share it:
// fifty thousand vanity MX names may be one hoster.
type addressLimit struct {
	mu      sync.Mutex // guards budget, waiting and share
	budget  persistedBudget
	key     addressLimitKey
	waiting [numPriorities]map[*readyQueue]*hostQueue // queues that found no room, each in one priority
	share   fairShare                                 // between waiting short and long jobs
	refs    int                                       // guarded by the registry's mutex
}

type addressLimitKey struct {
	source string
	addr   netip.Addr
}

type addressLimits struct {
	mu  sync.Mutex // guards all and the refs of its entries
	all map[addressLimitKey]*addressLimit
}

// limitsOfAddress returns the limits of an unknown route that hold for an address as well.
func limitsOfAddress(l engine.Limits) engine.Limits {
	l.RecipientsPerTransaction, l.RecipientsPerConnection, l.TransactionsPerConnection, l.RefusalsPerConnection = 0, 0, 0, 0
	return l
}

// acquire finds or makes an address limit and adds a user. It returns nil if addresses have no limits.
func (ds *addressLimits) acquire(p *Prober, src *source, addr netip.Addr, now time.Time) *addressLimit {
	limits := limitsOfAddress(src.warmUpLimits(p.table.Load().Unknown.Limits, now))
	if limits == (engine.Limits{}) {
		return nil
	}
	k := addressLimitKey{src.name, addr}
	if d := ds.find(k, nil); d != nil {
		return d
	}
	d := &addressLimit{key: k}
	d.budget = newPersisted("destination "+src.name+" "+addr.String(), newBudget(limits, &p.singleCalls, now), &d.mu, d.onRoom)
	if err := d.budget.load(p.cfg.Cache, now); err != nil {
		p.logUnreadable(err)
	}
	return ds.find(k, d)
}

// find returns the address limit, or fresh if there is none, and adds a user.
func (ds *addressLimits) find(k addressLimitKey, fresh *addressLimit) *addressLimit {
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

func (ds *addressLimits) release(d *addressLimit) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.refs--
}

// reserveAddress reserves a connection in the budget of an address. If there is no room, the host queue waits for it.
func (s *session) reserveAddress(addr netip.Addr) bool {
	q, p, now := s.queue, s.queue.prober, time.Now()
	d := p.addressLimits.acquire(p, s.source, addr, now)
	if d == nil {
		return true
	}
	q.mu.Lock()
	longBacklog := q.budget.LongBacklogUntil()
	q.mu.Unlock()
	d.mu.Lock()
	d.noteDemand(s.priority, longBacklog, now)
	noRoom := d.mayConnect(s.priority, now)
	if !noRoom.denied {
		d.budget.reserveConnect(s.priority, now)
	}
	d.mu.Unlock()
	if !noRoom.denied {
		s.addressLimit = d
		return true
	}
	s.awaitAddress(d, noRoom, now)
	p.addressLimits.release(d)
	q.prober.metrics.addressWaits.Inc()
	q.prober.metrics.oldAddressWaits.Inc()
	return false
}

// noteDemand records what a route reports: until when it has a long backlog, and the priority that asks. The mutex is held.
func (d *addressLimit) noteDemand(class priority, longBacklog, now time.Time) {
	d.budget.ExtendLongBacklog(longBacklog)
	if class == short {
		d.budget.RecordShortJob(now)
	}
}

// mayConnect checks that there is room for a connection and for a recipient on it. The mutex is held.
func (d *addressLimit) mayConnect(class priority, now time.Time) denial {
	if n, noRoom := d.budget.room(&connUsage{}, class, now); n == 0 {
		return noRoom
	}
	return d.budget.mayConnect(class, now)
}

// awaitAddress blocks the host queue until the address limit has room. It blocks before it registers as a waiter and checks
// once more after, so that no wake-up is missed. Room that its priority may not use is offered to higher ones: their wake-up
// may have gone to this host queue.
func (s *session) awaitAddress(d *addressLimit, noRoom denial, now time.Time) {
	q, least := s.queue, s.priority
	q.mu.Lock()
	q.block(s.hostQueue, s.priority, noRoom.until, now)
	q.mu.Unlock()
	d.mu.Lock()
	d.addWaiter(q, s.hostQueue, s.priority)
	for noRoom = d.mayConnect(least, now); noRoom.denied && !noRoom.lease && least < single; noRoom = d.mayConnect(least, now) {
		least++
	}
	if noRoom.lease {
		q.prober.budgetLog.requestLease(&d.budget)
	}
	d.mu.Unlock()
	if !noRoom.denied {
		d.offerRoom(least, now)
	}
}

// addWaiter records that a host queue of a ready queue waits for room. The mutex is held.
func (d *addressLimit) addWaiter(q *readyQueue, hq *hostQueue, class priority) {
	for _, queues := range d.waiting {
		delete(queues, q)
	}
	if d.waiting[class] == nil {
		d.waiting[class] = map[*readyQueue]*hostQueue{}
	}
	d.waiting[class][q] = hq
}

// maxAddressWait bounds the wait for a wake-up by the address limit.
const maxAddressWait = 30 * time.Second

func (d *addressLimit) settleConnect(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.budget.settleConnect(now)
}

// connectionClosed releases a connection and wakes a waiter.
func (d *addressLimit) connectionClosed(now time.Time) {
	d.mu.Lock()
	d.budget.connectionClosed()
	d.mu.Unlock()
	d.onRoom(now)
}

// onRoom wakes one waiting ready queue that can use the room.
func (d *addressLimit) onRoom(now time.Time) { d.offerRoom(bulk, now) }

// offerRoom wakes one ready queue that waits in this priority or a higher one and can use the room. A queue that cannot use
// it passes it on once, to waiters of higher priority.
func (d *addressLimit) offerRoom(least priority, now time.Time) {
	for q, hq := d.nextWaiter(least); q != nil; q, hq = d.nextWaiter(least) {
		if q.unblock(hq, now) {
			return
		}
	}
}

// nextWaiter removes and returns the next waiter: single calls first, then short and long jobs by their share.
func (d *addressLimit) nextWaiter(least priority) (*readyQueue, *hostQueue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	class, shorts := single, len(d.waiting[short]) > 0
	if len(d.waiting[single]) == 0 {
		both := shorts && len(d.waiting[bulk]) > 0 && least == bulk
		if class = d.share.next(both, shorts); both {
			d.share.record(class, 1)
		}
	}
	if class >= least {
		for q, hq := range d.waiting[class] {
			delete(d.waiting[class], q)
			return q, hq
		}
	}
	return nil, nil
}
