package prober

import (
	"sync"
	"time"

	"probity/store/cache"
)

// account is a pace whose hourly budget survives a restart: a lane's or a destination's.
type account struct {
	name string
	mu   sync.Mutex // guards pace, and all of the lane that it belongs to
	pace pace
	wake func(now time.Time) // called, without mu, when a lease was granted
	// asked says that the ledger has been asked for a lease. Guarded by mu.
	asked bool
}

// open restores the account from the cache. What cannot be read is an empty budget.
func (a *account) open(c *cache.Cache, now time.Time) error {
	a.pace.lease.needed = a.pace.limits.RefusalsPerHour > 0
	state, ok, err := c.Budget(a.name)
	if err == nil && !ok {
		return nil
	}
	if err != nil || !a.pace.read(state, now) {
		a.pace.exhaust(now)
	}
	return err
}

// ledger writes budgets ahead of their use: one commit for all who ask meanwhile.
type ledger struct {
	cache *cache.Cache
	mu    sync.Mutex // guards queue
	queue []*account // at most one entry an account
	bell  chan struct{}
}

func newLedger(c *cache.Cache) *ledger { return &ledger{cache: c, bell: make(chan struct{}, 1)} }

// ask queues an account for a fresh lease. The account's mutex is held.
func (g *ledger) ask(a *account) {
	if a.asked {
		return
	}
	a.asked = true
	g.mu.Lock()
	g.queue = append(g.queue, a)
	g.mu.Unlock()
	select {
	case g.bell <- struct{}{}:
	default:
	}
}

func (g *ledger) take() []*account {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue
	g.queue = nil
	return q
}

// serve writes what was asked for and grants it. When the writing fails nothing is granted, and the accounts stay asked for.
func (g *ledger) serve(now time.Time) error {
	asked := g.take()
	if len(asked) == 0 {
		return nil
	}
	lends, budgets := make([]int, len(asked)), make([]cache.Budget, len(asked))
	for i, a := range asked {
		a.mu.Lock()
		budgets[i], lends[i] = a.snapshot(now)
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
		a.asked = false
		a.pace.granted(lends[i], now)
		a.mu.Unlock()
		a.wake(time.Now())
	}
	return nil
}

// snapshot is the account's state for the disk, with a fresh lease in it. The account's mutex is held.
func (a *account) snapshot(now time.Time) (cache.Budget, int) {
	state, lend := a.pace.snapshot(nil, now)
	until := now.Add(time.Hour + leaseLife + leaseTail + a.pace.refuse.slot)
	if a.pace.rest.After(until) {
		until = a.pace.rest
	}
	return cache.Budget{Name: a.name, State: state, Until: until}, lend
}

// closing is the account's state without a lease, for the end of its life in memory. The account's mutex is held.
func (a *account) closing(now time.Time) cache.Budget {
	if a.pace.refuse.idle(now) && !now.Before(a.pace.rest) {
		return cache.Budget{Name: a.name}
	}
	b, _ := a.snapshot(now)
	b.State = a.pace.append(nil, 0, now)
	return b
}
