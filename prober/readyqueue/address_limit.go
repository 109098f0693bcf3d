package readyqueue

import (
	"net/netip"
	"sync"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/source"
	"probity/store/cache"
)

// addressLimit is the budget of one source towards one address. All routes of unknown providers that lead there share it:
// fifty thousand vanity MX names may be one hoster.
type addressLimit struct {
	mu      sync.Mutex // guards budget, waiting and share
	budget  budget.Persisted
	waiting [budget.NumClasses]map[*Queue]*hostQueue // queues that found no room, each in one priority
	share   budget.FairShare                         // between waiting short and long jobs
	refs    int                                      // guarded by the registry's mutex
}

type addressLimitKey struct {
	source string
	addr   netip.Addr
}

type addressLimits struct {
	mu  sync.Mutex // guards all and the refs of its entries
	all map[addressLimitKey]*addressLimit
}

// acquire finds or makes an address limit and adds a user. It returns nil if addresses have no limits.
func (ds *addressLimits) acquire(env *Env, src *source.Source, addr netip.Addr, now time.Time) *addressLimit {
	l := src.WarmUpLimits(env.Table.Load().Unknown.Limits, now)
	// Those of a transaction or connection hold for its route only.
	l.RecipientsPerTransaction, l.RecipientsPerConnection, l.TransactionsPerConnection, l.RefusalsPerConnection = 0, 0, 0, 0
	if l == (engine.Limits{}) {
		return nil
	}
	k := addressLimitKey{src.Name, addr}
	ds.mu.Lock()
	known := ds.all[k]
	if known != nil {
		known.refs++
	}
	ds.mu.Unlock()
	if known != nil {
		return known
	}
	d := &addressLimit{}
	// The name is stored: a budget that is not found counts as unused.
	d.budget = budget.NewPersisted("destination "+src.Name+" "+addr.String(), budget.New(l, env.SingleCalls, now), &d.mu, d.onRoom)
	if err := d.budget.Load(env.Cache, now); err != nil {
		env.logUnreadable(err)
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if known = ds.all[k]; known == nil { // else another session was faster
		known = d
		set(&ds.all, k, d)
	}
	known.refs++
	return known
}

func (ds *addressLimits) release(d *addressLimit) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.refs--
}

// releaseIdle drops address limits that nothing uses and whose budgets are full.
func (ds *addressLimits) releaseIdle(now time.Time) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for k, d := range ds.all {
		d.mu.Lock()
		if d.refs == 0 && !d.budget.LeaseRequested() && d.budget.Idle(now) {
			delete(ds.all, k) // a queue that waits there still has returned its rows, or its timer wakes it
		}
		d.mu.Unlock()
	}
}

// finalStates returns all budgets without leases.
func (ds *addressLimits) finalStates(now time.Time) (all []cache.Budget) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, d := range ds.all {
		d.mu.Lock()
		all = append(all, d.budget.FinalState(now))
		d.mu.Unlock()
	}
	return all
}

// requestLeases requests a lease for each budget, with which it is written.
func (ds *addressLimits) requestLeases(log *budget.Log) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, d := range ds.all {
		d.mu.Lock()
		log.RequestLease(&d.budget)
		d.mu.Unlock()
	}
}

// reserveAddress reserves a connection in the budget of an address. If there is no room, the host queue is blocked until there
// is. It is blocked before it is registered as a waiter, and room is looked for once more after, so that no wake-up is missed.
// Room that its priority may not use is offered to higher ones: their wake-up may have gone to this host queue.
func (s *session) reserveAddress(addr netip.Addr) bool {
	q, env, now := s.queue, s.queue.env, time.Now()
	d := env.addressLimits.acquire(env, s.source, addr, now)
	if d == nil {
		return true
	}
	q.mu.Lock()
	longBacklog := q.budget.Pacing.Until()
	q.mu.Unlock()
	d.mu.Lock()
	d.noteDemand(s.priority, longBacklog, now)
	noRoom := d.mayConnect(s.priority, now)
	if !noRoom.Denied {
		d.budget.ReserveConnect(s.priority, now)
	}
	d.mu.Unlock()
	if !noRoom.Denied {
		s.addressLimit = d
		return true
	}
	q.mu.Lock()
	s.hostQueue.block(s.priority, noRoom.Until, now)
	q.mu.Unlock()
	least := s.priority
	d.mu.Lock()
	d.addWaiter(q, s.hostQueue, s.priority)
	for noRoom = d.mayConnect(least, now); noRoom.Denied && !noRoom.Lease && least < budget.Single; noRoom = d.mayConnect(least, now) {
		least++
	}
	if noRoom.Lease {
		env.BudgetLog.RequestLease(&d.budget)
	}
	d.mu.Unlock()
	if !noRoom.Denied {
		d.offerRoom(least, now)
	}
	env.addressLimits.release(d)
	env.Metrics.AddressWaits.Inc()
	env.Metrics.OldAddressWaits.Inc()
	return false
}

// noteDemand records what a route reports: until when it has a long backlog, and the priority that asks. The mutex is held.
func (d *addressLimit) noteDemand(class budget.Class, longBacklog, now time.Time) {
	d.budget.Pacing.Extend(longBacklog)
	if class == budget.ShortJob {
		d.budget.Pacing.RecordShortJob(now)
	}
}

// mayConnect checks that there is room for a connection and for a recipient on it. The mutex is held.
func (d *addressLimit) mayConnect(class budget.Class, now time.Time) budget.Denial {
	if n, noRoom := d.budget.Room(&budget.Conn{}, class, now); n == 0 {
		return noRoom
	}
	return d.budget.MayConnect(class, now)
}

// addWaiter records that a host queue of a ready queue waits for room. The mutex is held.
func (d *addressLimit) addWaiter(q *Queue, hq *hostQueue, class budget.Class) {
	for _, queues := range d.waiting {
		delete(queues, q)
	}
	if d.waiting[class] == nil {
		d.waiting[class] = map[*Queue]*hostQueue{}
	}
	d.waiting[class][q] = hq
}

// maxAddressWait bounds the wait for a wake-up by the address limit.
const maxAddressWait = 30 * time.Second

func (d *addressLimit) settleConnect(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.budget.SettleConnect(now)
}

// connectionClosed releases a connection and wakes a waiter.
func (d *addressLimit) connectionClosed(now time.Time) {
	d.mu.Lock()
	d.budget.ConnectionClosed()
	d.mu.Unlock()
	d.onRoom(now)
}

// onRoom wakes one waiting ready queue that can use the room.
func (d *addressLimit) onRoom(now time.Time) { d.offerRoom(budget.LongJob, now) }

// offerRoom wakes one ready queue that waits in this priority or a higher one and can use the room: single calls first, then
// short and long jobs by their share. A queue that cannot use it passes it on once, to waiters of higher priority.
func (d *addressLimit) offerRoom(least budget.Class, now time.Time) {
	for {
		d.mu.Lock()
		class, shorts := budget.Single, len(d.waiting[budget.ShortJob]) > 0
		if len(d.waiting[budget.Single]) == 0 {
			both := shorts && len(d.waiting[budget.LongJob]) > 0 && least == budget.LongJob
			if class = d.share.Next(both, shorts); both {
				d.share.Record(class, 1)
			}
		}
		var q *Queue
		var hq *hostQueue
		if class >= least {
			for q, hq = range d.waiting[class] {
				delete(d.waiting[class], q)
				break
			}
		}
		d.mu.Unlock()
		if q == nil {
			return
		}
		q.mu.Lock()
		hq.endBlock()
		busy := hq.sessions - len(hq.idle)
		q.dispatch(now)
		used := hq.sessions-len(hq.idle) > busy
		q.mu.Unlock()
		if used {
			return
		}
	}
}
