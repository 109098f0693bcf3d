package budget

import (
	"sync"
	"time"

	"probity/store/cache"
)

// Persisted is a budget whose hourly part survives a restart.
type Persisted struct {
	Budget
	name    string // that it is stored under
	owner   sync.Locker
	onLease func(now time.Time)
	// requested: it is queued for a lease in the budget log.
	requested bool
}

// NewPersisted makes a budget that is stored under a name. The owner's lock guards it: all methods but Load need it, and the budget log
// takes it. onLease is called without it after a lease was granted.
func NewPersisted(name string, b Budget, owner sync.Locker, onLease func(now time.Time)) Persisted {
	return Persisted{Budget: b, name: name, owner: owner, onLease: onLease}
}

// LeaseRequested reports that it is queued for a lease.
func (a *Persisted) LeaseRequested() bool { return a.requested }

// Load restores the budget from the cache. One that cannot be read counts as used up.
func (a *Persisted) Load(c *cache.Cache, now time.Time) error {
	a.lease.needed = true
	state, ok, err := c.Budget(a.name)
	if err == nil && !ok {
		return nil
	}
	if err != nil || !a.read(state, now) {
		a.exhaust(now)
	}
	return err
}

// Log writes budgets to disk before they are used, with one commit for all requests that have come meanwhile.
type Log struct {
	cache  *cache.Cache
	mu     sync.Mutex   // guards queue
	queue  []*Persisted // at most one entry per budget
	wakeup chan struct{}
}

// NewLog makes an empty log.
func NewLog(c *cache.Cache) *Log {
	return &Log{cache: c, wakeup: make(chan struct{}, 1)}
}

// RequestLease queues a budget for a new lease. The owner's lock is held.
func (g *Log) RequestLease(a *Persisted) {
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
func (g *Log) Requested() <-chan struct{} { return g.wakeup }

// GrantLeases writes the requested leases and grants them. If the write fails, nothing is granted and the requests stay queued.
func (g *Log) GrantLeases(now time.Time) error {
	g.mu.Lock()
	asked := g.queue
	g.queue = nil
	g.mu.Unlock()
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
		a.lease.grant(leases[i], now)
		a.owner.Unlock()
		a.onLease(time.Now())
	}
	return nil
}

// entry is the budget's state for the disk, with a new lease in it. The owner's lock is held.
func (a *Persisted) entry(now time.Time) (cache.Budget, int) {
	state, leased := a.snapshot(nil, now)
	until := now.Add(time.Hour + leaseLife + leaseTail + a.refusalWindow.slot)
	if a.QuarantinedUntil.After(until) {
		until = a.QuarantinedUntil
	}
	return cache.Budget{Name: a.name, State: state, Until: until}, leased
}

// FinalState is the budget's state without a lease, written at the stop. The owner's lock is held.
func (a *Persisted) FinalState(now time.Time) cache.Budget {
	if a.refusalWindow.empty(now) && !now.Before(a.QuarantinedUntil) {
		return cache.Budget{Name: a.name}
	}
	b, _ := a.entry(now)
	b.State = a.append(nil, 0, now)
	return b
}
