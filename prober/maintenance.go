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
		case <-p.env.BudgetLog.Requested():
		}
		for err := p.env.BudgetLog.GrantLeases(time.Now()); err != nil; err = p.env.BudgetLog.GrantLeases(time.Now()) {
			p.cfg.Log.Error("budgets not saved: queues that need a lease wait", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(budgetRetryDelay):
			}
		}
	}
}

// maintain saves the heartbeat each minute and drops idle queues and address limits whose budgets are full; if there
// are many queues, also those whose hourly budget is on disk. Of budgets nothing is written: the use on disk is never
// less than the real one.
func (p *Prober) maintain(ctx context.Context) {
	t := time.NewTicker(maintainEvery)
	defer t.Stop()
	for {
		now := time.Now()
		if err := p.cfg.Cache.PutBudgets([]cache.Budget{heartbeat(now.Add(maintainEvery +
			maintainEvery/2))}); err != nil {
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
			if q.CloseIdle(crowded, now) {
				p.unregister(q)
			}
		}
		p.env.AddressLimits.ReleaseIdle(now)
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
			p.SetTable(p.env.Table.Load()) // gives queues the budgets of their source's warm-up
		}
	}
}
