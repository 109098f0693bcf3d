package budget

import (
	"context"
	"errors"
	"log/slog"
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

// NewPersisted makes a budget that is stored under a name. The owner's lock guards it: all methods but Load need it,
// and the budget log takes it. onLease is called without it after a lease was granted.
func NewPersisted(name string, b Budget, owner sync.Locker, onLease func(now time.Time)) Persisted {
	return Persisted{Budget: b, name: name, owner: owner, onLease: onLease}
}

// WrittenAt returns the time at which the state was written that Load has restored; zero if there was none.
func (p *Persisted) WrittenAt() time.Time { return p.writtenAt }

// LeaseRequested reports whether it is queued for a lease.
func (p *Persisted) LeaseRequested() bool { return p.requested }

// Load restores the budget from the cache. One that cannot be read counts as used up.
func (p *Persisted) Load(c *cache.Cache, now time.Time) error {
	p.lease.needed = true
	state, ok, err := c.Budget(p.name)
	if err == nil && !ok {
		return nil
	}
	if err != nil || !p.read(state, now) {
		p.exhaust(now)
	}
	return err
}

// LogUnreadable logs that a budget cannot be read: err is that of Load. After damage to the cache that holds for each
// budget and was logged once.
func LogUnreadable(log *slog.Logger, err error) {
	level := slog.LevelError
	if errors.Is(err, cache.ErrSetAside) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, "budget unreadable: treated as used up", "error", err)
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
func (l *Log) RequestLease(a *Persisted) {
	if a.requested {
		return
	}
	a.requested = true
	l.mu.Lock()
	l.queue = append(l.queue, a)
	l.mu.Unlock()
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// Requested has a value when a budget was queued.
func (l *Log) Requested() <-chan struct{} { return l.wakeup }

// GrantLeases writes the requested leases and grants them. If the write fails, nothing is granted and the requests stay
// queued.
func (l *Log) GrantLeases(now time.Time) error {
	l.mu.Lock()
	asked := l.queue
	l.queue = nil
	l.mu.Unlock()
	if len(asked) == 0 {
		return nil
	}
	leases, budgets := make([]int, len(asked)), make([]cache.Budget, len(asked))
	for i, a := range asked {
		a.owner.Lock()
		budgets[i], leases[i] = a.entry(now)
		a.owner.Unlock()
	}
	if err := l.cache.PutBudgets(budgets); err != nil {
		l.mu.Lock()
		l.queue = append(l.queue, asked...)
		l.mu.Unlock()
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
func (p *Persisted) entry(now time.Time) (cache.Budget, int) {
	state, leased := p.snapshot(nil, now)
	until := now.Add(time.Hour + leaseLife + leaseTail + p.refusalWindow.slot)
	if p.QuarantinedUntil.After(until) {
		until = p.QuarantinedUntil
	}
	return cache.Budget{Name: p.name, State: state, Until: until}, leased
}

// FinalState is the budget's state without a lease, written at the stop. The owner's lock is held.
func (p *Persisted) FinalState(now time.Time) cache.Budget {
	if p.refusalWindow.empty(now) && !now.Before(p.QuarantinedUntil) {
		return cache.Budget{Name: p.name}
	}
	b, _ := p.entry(now)
	b.State = p.append(nil, 0, now)
	return b
}
