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

// writeKnown writes what only the start reads, and asks for leases, with which each account is written.
func (p *Prober) writeKnown() error {
	now := time.Now()
	for _, l := range p.allLanes() {
		l.mu.Lock()
		p.ledger.ask(&l.account)
		l.mu.Unlock()
	}
	p.dests.mu.Lock()
	for _, d := range p.dests.all {
		d.mu.Lock()
		p.ledger.ask(&d.account)
		d.mu.Unlock()
	}
	p.dests.mu.Unlock()
	for _, e := range p.egress.list {
		p.keepRest(e)
		if e.since.IsZero() {
			continue
		}
		if err := keepFirstUse(p.cfg.Cache, e.name, e.since); err != nil {
			return err
		}
	}
	return p.cfg.Cache.PutBudgets([]cache.Budget{p.note(now.Add(tendEvery + tendEvery/2))})
}

// tellUnread logs that a budget cannot be read. After damage to the cache that is so of each lane, and was told once.
func (p *Prober) tellUnread(err error) {
	level := slog.LevelError
	if errors.Is(err, cache.ErrSetAside) {
		level = slog.LevelDebug
	}
	p.cfg.Log.Log(context.Background(), level, "a budget cannot be read: it counts as used up", "error", err)
}
