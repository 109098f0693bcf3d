package prober

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"probity/store/cache"
)

// mendCache has a damaged cache set aside while the prober works, and writes into the new one what is known here: the budgets in
// memory go on as they are, and only those that are not count as used up.
func (p *Prober) mendCache(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.cfg.Cache.Damage():
		}
		p.cfg.Cache.SetAside()
		if err := p.writeKnown(); err != nil {
			p.cfg.Log.Error("what is known of budgets was not written into the new cache: it counts as used up after a restart", "error", err)
		}
	}
}

// writeKnown writes what only the start reads, and asks for leases, with which each budget is written.
func (p *Prober) writeKnown() error {
	now := time.Now()
	for _, q := range p.allQueues() {
		q.mu.Lock()
		p.budgetLog.requestLease(&q.persistedBudget)
		q.mu.Unlock()
	}
	p.addressLimits.mu.Lock()
	for _, d := range p.addressLimits.all {
		d.mu.Lock()
		p.budgetLog.requestLease(&d.persistedBudget)
		d.mu.Unlock()
	}
	p.addressLimits.mu.Unlock()
	for _, src := range p.sources.list {
		p.saveQuarantine(src)
		if src.firstUsed.IsZero() {
			continue
		}
		if err := saveFirstUse(p.cfg.Cache, src.name, src.firstUsed); err != nil {
			return err
		}
	}
	return p.cfg.Cache.PutBudgets([]cache.Budget{p.heartbeat(now.Add(maintainEvery + maintainEvery/2))})
}

// logUnreadable logs that a budget cannot be read. After damage to the cache that is so of each queue, and was told once.
func (p *Prober) logUnreadable(err error) {
	level := slog.LevelError
	if errors.Is(err, cache.ErrSetAside) {
		level = slog.LevelDebug
	}
	p.cfg.Log.Log(context.Background(), level, "a budget cannot be read: it counts as used up", "error", err)
}
