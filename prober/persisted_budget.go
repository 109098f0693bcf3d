package prober

import (
	"sync"
	"time"

	"probity/store/cache"
)

// persistedBudget is a budget whose hourly part survives a restart.
type persistedBudget struct {
	budget
	name    string // that it is stored under
	owner   sync.Locker
	onLease func(now time.Time)
	// requested: it is queued for a lease in the budget log.
	requested bool
}

// newPersisted makes a budget that is stored under a name. The owner's lock guards it: all methods but load need it, and the budget log
// takes it. onLease is called without it after a lease was granted.
func newPersisted(name string, b budget, owner sync.Locker, onLease func(now time.Time)) persistedBudget {
	return persistedBudget{budget: b, name: name, owner: owner, onLease: onLease}
}

// LeaseRequested reports that it is queued for a lease.
func (a *persistedBudget) LeaseRequested() bool { return a.requested }

// load restores the budget from the cache. One that cannot be read counts as used up.
func (a *persistedBudget) load(c *cache.Cache, now time.Time) error {
	a.lease.needed = a.limits.RefusalsPerHour > 0
	state, ok, err := c.Budget(a.name)
	if err == nil && !ok {
		return nil
	}
	if err != nil || !a.read(state, now) {
		a.exhaust(now)
	}
	return err
}

// budgetLog writes budgets to disk before they are used, with one commit for all requests that have come meanwhile.
type budgetLog struct {
	cache  *cache.Cache
	mu     sync.Mutex         // guards queue
	queue  []*persistedBudget // at most one entry per budget
	wakeup chan struct{}
}

func newBudgetLog(c *cache.Cache) *budgetLog {
	return &budgetLog{cache: c, wakeup: make(chan struct{}, 1)}
}

// requestLease queues a budget for a new lease. The owner's lock is held.
func (g *budgetLog) requestLease(a *persistedBudget) {
	if a.requested {
		return
	}
	a.requested = true
	g.mu.Lock()
	g.queue = append(g.queue, a)
	g.mu.Unlock()
	select {
	case g.wakeup <- struct{}{}:
	default:
	}
}

// Requested has a value when a budget was queued.
func (g *budgetLog) Requested() <-chan struct{} { return g.wakeup }

func (g *budgetLog) drain() []*persistedBudget {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue
	g.queue = nil
	return q
}

// grantLeases writes the requested leases and grants them. If the write fails, nothing is granted and the requests stay queued.
func (g *budgetLog) grantLeases(now time.Time) error {
	asked := g.drain()
	if len(asked) == 0 {
		return nil
	}
	leases, budgets := make([]int, len(asked)), make([]cache.Budget, len(asked))
	for i, a := range asked {
		a.owner.Lock()
		budgets[i], leases[i] = a.entry(now)
		a.owner.Unlock()
	}
	if err := g.cache.PutBudgets(budgets); err != nil {
		g.mu.Lock()
		g.queue = append(g.queue, asked...)
		g.mu.Unlock()
		return err
	}
	for i, a := range asked {
		a.owner.Lock()
		a.requested = false
		a.grantLease(leases[i], now)
		a.owner.Unlock()
		a.onLease(time.Now())
	}
	return nil
}

// entry is the budget's state for the disk, with a new lease in it. The owner's lock is held.
func (a *persistedBudget) entry(now time.Time) (cache.Budget, int) {
	state, leased := a.snapshot(nil, now)
	until := now.Add(time.Hour + leaseLife + leaseTail + a.refusalWindow.slot)
	if a.quarantinedUntil.After(until) {
		until = a.quarantinedUntil
	}
	return cache.Budget{Name: a.name, State: state, Until: until}, leased
}

// finalState is the budget's state without a lease, written at the stop. The owner's lock is held.
func (a *persistedBudget) finalState(now time.Time) cache.Budget {
	if a.refusalWindow.empty(now) && !now.Before(a.quarantinedUntil) {
		return cache.Budget{Name: a.name}
	}
	b, _ := a.entry(now)
	b.State = a.append(nil, 0, now)
	return b
}
