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

// leaseLoop grants leases as they are asked for.
func (p *Prober) leaseLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.budgetLog.wakeup:
		}
		for err := p.budgetLog.grantLeases(time.Now()); err != nil; err = p.budgetLog.grantLeases(time.Now()) {
			p.cfg.Log.Error("budgets cannot be written: lanes that need them wait", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(budgetRetryDelay):
			}
		}
	}
}

// maintain notes each minute that the node is alive, and forgets what is idle.
func (p *Prober) maintain(ctx context.Context) {
	t := time.NewTicker(maintainEvery)
	defer t.Stop()
	for {
		now := time.Now()
		if err := p.cfg.Cache.PutBudgets([]cache.Budget{p.heartbeat(now.Add(maintainEvery + maintainEvery/2))}); err != nil {
			p.cfg.Log.Error("the node's clock was not written", "error", err)
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

// sweep sweeps the cache each hour; at the start as well if only that tells which addresses the cache has not.
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
		if p.warmingUp(time.Now().Add(-sweepEvery)) {
			p.SetTable(p.table.Load()) // gives queues the budgets of their source's age
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

// dropIdle forgets queues and address limits that hold nothing but full budgets; when queues are many, also those whose hour is on
// disk. Nothing is written: what is on disk is never less than what was used.
func (p *Prober) dropIdle(now time.Time) {
	crowded := p.queueCount() > p.cfg.MaxQueues/2
	for _, q := range p.allQueues() {
		q.mu.Lock()
		q.dropUnconfirmed(now)
		remembers := len(q.unconfirmedFailures) > 0 && !crowded
		drop := q.idle() && !remembers && now.After(q.connectAllowedAt()) && (q.budget.idle(now) || crowded && q.budget.minuteBudgetsFull(now))
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

// minuteBudgetsFull reports that only the hour's budget has anything to remember.
func (p *budget) minuteBudgetsFull(now time.Time) bool {
	return p.openConns == 0 && p.connWindow.empty(now) && p.rcptWindow.empty(now) && !now.Before(p.halvedUntil)
}

// dropIdle forgets address limits that are not in use and have full budgets. A ready queue that still stands there as waiting has
// sent its rows home, or finds its room by itself.
func (ds *addressLimits) dropIdle(now time.Time) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for k, d := range ds.all {
		d.mu.Lock()
		if d.refs == 0 && !d.leaseRequested && d.budget.idle(now) {
			delete(ds.all, k)
		}
		d.mu.Unlock()
	}
}

// closeQueues ends all queues and writes their budgets as they are: no lease is out any more.
func (p *Prober) closeQueues(now time.Time) error {
	budgets := []cache.Budget{p.heartbeat(now)}
	for _, q := range p.allQueues() {
		q.mu.Lock()
		q.close()
		budgets = append(budgets, q.finalState(now))
		q.mu.Unlock()
		p.unregister(q)
	}
	p.addressLimits.mu.Lock()
	for _, d := range p.addressLimits.all {
		d.mu.Lock()
		budgets = append(budgets, d.finalState(now))
		d.mu.Unlock()
	}
	p.addressLimits.mu.Unlock()
	return p.cfg.Cache.PutBudgets(budgets)
}
