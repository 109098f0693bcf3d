package addresslimit

import (
	"net/netip"
	"sync"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/store/cache"
)

// Registry has the limits of a node. It is safe for concurrent use.
type Registry struct {
	cache       *cache.Cache
	leases      *budget.Log
	singleCalls budget.SingleCalls

	mu     sync.Mutex // guards limits and their users
	limits map[key]*Limit
}

type key struct {
	source string
	addr   netip.Addr
}

// NewRegistry makes an empty registry. Limits are stored in c and get their leases from the log.
func NewRegistry(c *cache.Cache, leases *budget.Log, singles budget.SingleCalls) *Registry {
	return &Registry{cache: c, leases: leases, singleCalls: singles, limits: map[key]*Limit{}}
}

// Acquire finds or makes the limit of a source towards an address, and counts one more user; Release ends it. From now
// on it allows what the limits say. It is nil if the limits of unknown providers set none for addresses. The error says
// that its budget could not be read: then it counts as used up.
func (r *Registry) Acquire(source string, addr netip.Addr, limits engine.Limits, now time.Time) (*Limit, error) {
	// Those of a transaction or connection hold for its route only.
	limits.RecipientsPerTransaction = 0
	limits.RecipientsPerConnection = 0
	limits.TransactionsPerConnection = 0
	limits.RefusalsPerConnection = 0
	if limits == (engine.Limits{}) {
		return nil, nil
	}
	k := key{source, addr}
	r.mu.Lock()
	known := r.limits[k]
	if known != nil {
		known.users++
	}
	r.mu.Unlock()
	if known != nil {
		known.mu.Lock()
		known.budget.Limits = limits // another table, or a source that has warmed up
		known.mu.Unlock()
		return known, nil
	}
	l := &Limit{registry: r}
	// The name is stored: a budget that is not found counts as unused.
	l.budget = budget.NewPersisted("destination "+source+" "+addr.String(), budget.New(limits, r.singleCalls, now),
		&l.mu, l.onRoom)
	err := l.budget.Load(r.cache, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.limits[k]
	if known == nil { // else another user was faster
		known = l
		r.limits[k] = l
	}
	known.users++
	return known, err
}

// Usage returns how much of the refusals of an hour a source has used at an address; the zero value is no limit.
func (r *Registry) Usage(source string, addr netip.Addr, now time.Time) (refusals budget.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.limits[key{source, addr}]; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, refusals = l.budget.Usage(now)
	}
	return refusals
}

// ReleaseIdle drops limits that have no user and whose budgets are full.
func (r *Registry) ReleaseIdle(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, l := range r.limits {
		l.mu.Lock()
		if l.users == 0 && !l.budget.LeaseRequested() && l.budget.Idle(now) {
			delete(r.limits, k) // a queue that waits there still has returned its rows, or its timer wakes it
		}
		l.mu.Unlock()
	}
}

// FinalStates returns all budgets without their leases: none is used any more.
func (r *Registry) FinalStates(now time.Time) (all []cache.Budget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.limits {
		l.mu.Lock()
		all = append(all, l.budget.FinalState(now))
		l.mu.Unlock()
	}
	return all
}

// RequestLeases requests a lease for each budget, with which it is written.
func (r *Registry) RequestLeases() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.limits {
		l.mu.Lock()
		r.leases.RequestLease(&l.budget)
		l.mu.Unlock()
	}
}
