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

// maintain saves the heartbeat each minute and drops idle queues and address limits whose budgets are full; if there are many queues,
// also those whose hourly budget is on disk. Of budgets nothing is written: the use on disk is never less than the real one.
func (p *Prober) maintain(ctx context.Context) {
	t := time.NewTicker(maintainEvery)
	defer t.Stop()
	for {
		now := time.Now()
		if err := p.cfg.Cache.PutBudgets([]cache.Budget{heartbeat(now.Add(maintainEvery + maintainEvery/2))}); err != nil {
			p.cfg.Log.Error("heartbeat not saved", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now = time.Now()
		all := p.allQueues()
		crowded := len(all) > p.cfg.MaxQueues/2
		for _, q := range all {
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
		p.addressLimits.mu.Lock()
		for k, d := range p.addressLimits.all {
			d.mu.Lock()
			if d.refs == 0 && !d.budget.LeaseRequested() && d.budget.Idle(now) {
				delete(p.addressLimits.all, k) // a queue that waits there still has returned its rows, or its timer wakes it
			}
			d.mu.Unlock()
		}
		p.addressLimits.mu.Unlock()
		p.logSkipped(now)
	}
}

// sweep sweeps the cache each hour, and at the start if the cache's key filter must be built.
func (p *Prober) sweep(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for due := !p.cfg.Cache.FilterReady(); ; due = true {
		if due {
			s, err := p.cfg.Cache.Sweep(ctx, time.Now())
			if err != nil && !errors.Is(err, context.Canceled) {
				p.cfg.Log.Error("the cache was not swept", "error", err)
			}
			p.cfg.Log.Debug("cache swept", "read", s.Read, "deleted", s.Deleted)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if p.sources.WarmingUp(time.Now().Add(-sweepEvery)) {
			p.SetTable(p.table.Load()) // gives queues the budgets of their source's warm-up
		}
	}
}

// close takes the queue out of use. The mutex is held.
func (q *readyQueue) close() {
	q.removed = true
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}
