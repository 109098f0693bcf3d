package prober

import (
	"context"
	"time"

	"probity/store/cache"
)

// mendCache sets a damaged cache aside while the prober works, and writes into the new one what is in memory. Budgets
// in memory stay as they are; only those that are not in memory count as used up.
func (p *Prober) mendCache(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.cfg.Cache.Damage():
		}
		for p.cfg.Cache.Full() != nil { // a new database needs room
			select {
			case <-ctx.Done():
				return
			case <-time.After(budgetRetryDelay):
			}
		}
		p.cfg.Cache.SetAside()
		if err := p.writeKnown(); err != nil {
			p.cfg.Log.Error("budgets not saved in the new cache: treated as used up after a restart", "error", err)
		}
	}
}

// writeKnown writes what is otherwise read only at the start, and requests leases, with which each budget is written.
func (p *Prober) writeKnown() error {
	now := time.Now()
	for _, q := range p.allQueues() {
		q.RequestLease()
	}
	p.env.AddressLimits.RequestLeases()
	for _, src := range p.sources.List {
		p.saveQuarantine(src)
		if err := src.SaveFirstUse(p.cfg.Cache); err != nil {
			return err
		}
	}
	return p.cfg.Cache.PutBudgets([]cache.Budget{heartbeat(now.Add(maintainEvery + maintainEvery/2))})
}
