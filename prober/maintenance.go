package prober

import (
	"context"
	"errors"
	"time"

	"probity/store/cache"
)

const (
	maintainEvery    = time.Minute
	sweepEvery       = time.Hour
	budgetRetryDelay = time.Second // after a budget could not be written
)

// leaseLoop grants requested leases.
func (p *Prober) leaseLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.budgetLog.Requested():
		}
		for err := p.budgetLog.GrantLeases(time.Now()); err != nil; err = p.budgetLog.GrantLeases(time.Now()) {
			p.cfg.Log.Error("budgets not saved: queues that need a lease wait", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(budgetRetryDelay):
			}
		}
	}
}

// maintain saves the heartbeat each minute and drops what is idle.
func (p *Prober) maintain(ctx context.Context) {
	t := time.NewTicker(maintainEvery)
	defer t.Stop()
	for {
		now := time.Now()
		if err := p.cfg.Cache.PutBudgets([]cache.Budget{p.heartbeat(now.Add(maintainEvery + maintainEvery/2))}); err != nil {
			p.cfg.Log.Error("heartbeat not saved", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.dropIdle(time.Now())
		p.logSkipped(time.Now())
	}
}

// sweep sweeps the cache each hour, and at the start if the cache's key filter must be built.
func (p *Prober) sweep(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	if !p.cfg.Cache.FilterReady() {
		p.sweepOnce(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if p.sources.WarmingUp(time.Now().Add(-sweepEvery)) {
			p.SetTable(p.table.Load()) // gives queues the budgets of their source's warm-up
		}
		p.sweepOnce(ctx)
	}
}

func (p *Prober) sweepOnce(ctx context.Context) {
	s, err := p.cfg.Cache.Sweep(ctx, time.Now())
	if err != nil && !errors.Is(err, context.Canceled) {
		p.cfg.Log.Error("the cache was not swept", "error", err)
	}
	p.cfg.Log.Debug("cache swept", "read", s.Read, "deleted", s.Deleted)
}

// dropIdle drops idle queues and address limits whose budgets are full; if there are many queues, also those whose hourly
// budget is on disk. Nothing is written: the use on disk is never less than the real one.
func (p *Prober) dropIdle(now time.Time) {
	crowded := p.queueCount() > p.cfg.MaxQueues/2
	for _, q := range p.allQueues() {
		q.mu.Lock()
		q.dropUnconfirmed(now)
		remembers := len(q.unconfirmedFailures) > 0 && !crowded
		unused := q.probes == 0 && q.sessions == 0 && q.budget.Open() == 0 && !q.budget.LeaseRequested()
		drop := unused && !remembers && now.After(q.connectAllowedAt()) && (q.budget.Idle(now) || crowded && q.budget.MinuteBudgetsFull(now))
		if drop {
			q.close()
		}
		q.mu.Unlock()
		if drop {
			p.unregister(q)
		}
	}
	p.addressLimits.dropIdle(now)
}

// close takes the queue out of use. The mutex is held.
func (q *readyQueue) close() {
	q.removed = true
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// dropIdle drops address limits that are not used and have full budgets. A ready queue still registered there as a waiter has
// returned its rows, or its timer wakes it.
func (ds *addressLimits) dropIdle(now time.Time) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for k, d := range ds.all {
		d.mu.Lock()
		if d.refs == 0 && !d.budget.LeaseRequested() && d.budget.Idle(now) {
			delete(ds.all, k)
		}
		d.mu.Unlock()
	}
}

// closeQueues closes all queues and writes their budgets without leases: none is used any more.
func (p *Prober) closeQueues(now time.Time) error {
	budgets := []cache.Budget{p.heartbeat(now)}
	for _, q := range p.allQueues() {
		q.mu.Lock()
		q.close()
		budgets = append(budgets, q.budget.FinalState(now))
		q.mu.Unlock()
		p.unregister(q)
	}
	p.addressLimits.mu.Lock()
	for _, d := range p.addressLimits.all {
		d.mu.Lock()
		budgets = append(budgets, d.budget.FinalState(now))
		d.mu.Unlock()
	}
	p.addressLimits.mu.Unlock()
	return p.cfg.Cache.PutBudgets(budgets)
}
