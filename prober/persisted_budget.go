package prober

import (
	"sync"
	"time"

	"probity/store/cache"
)

// persistedBudget is the budget of a queue or an address limit; its hourly part survives a restart.
type persistedBudget struct {
	name    string
	mu      sync.Mutex // guards budget, and all fields of the queue that it belongs to
	budget  budget
	onLease func(now time.Time) // called without mu after a lease was granted
	// leaseRequested: the budget is queued for a lease in the budget log. Guarded by mu.
	leaseRequested bool
}

// load restores the budget from the cache. One that cannot be read counts as used up.
func (a *persistedBudget) load(c *cache.Cache, now time.Time) error {
	a.budget.lease.needed = a.budget.limits.RefusalsPerHour > 0
	state, ok, err := c.Budget(a.name)
	if err == nil && !ok {
		return nil
	}
	if err != nil || !a.budget.read(state, now) {
		a.budget.exhaust(now)
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

// requestLease queues a budget for a new lease. The budget's mutex is held.
func (g *budgetLog) requestLease(a *persistedBudget) {
	if a.leaseRequested {
		return
	}
	a.leaseRequested = true
	g.mu.Lock()
	g.queue = append(g.queue, a)
	g.mu.Unlock()
	select {
	case g.wakeup <- struct{}{}:
	default:
	}
}

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
		a.mu.Lock()
		budgets[i], leases[i] = a.snapshot(now)
		a.mu.Unlock()
	}
	if err := g.cache.PutBudgets(budgets); err != nil {
		g.mu.Lock()
		g.queue = append(g.queue, asked...)
		g.mu.Unlock()
		return err
	}
	for i, a := range asked {
		a.mu.Lock()
		a.leaseRequested = false
		a.budget.grantLease(leases[i], now)
		a.mu.Unlock()
		a.onLease(time.Now())
	}
	return nil
}

// snapshot is the budget's state for the disk, with a new lease in it. The budget's mutex is held.
func (a *persistedBudget) snapshot(now time.Time) (cache.Budget, int) {
	state, leased := a.budget.snapshot(nil, now)
	until := now.Add(time.Hour + leaseLife + leaseTail + a.budget.refusalWindow.slot)
	if a.budget.quarantinedUntil.After(until) {
		until = a.budget.quarantinedUntil
	}
	return cache.Budget{Name: a.name, State: state, Until: until}, leased
}

// finalState is the budget's state without a lease, written at the stop. The budget's mutex is held.
func (a *persistedBudget) finalState(now time.Time) cache.Budget {
	if a.budget.refusalWindow.empty(now) && !now.Before(a.budget.quarantinedUntil) {
		return cache.Budget{Name: a.name}
	}
	b, _ := a.snapshot(now)
	b.State = a.budget.append(nil, 0, now)
	return b
}
