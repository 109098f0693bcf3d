package prober

import (
	"context"
	"errors"
	"time"

	"probity/store/cache"
)

const (
	tendEvery  = time.Minute
	sweepEvery = time.Hour
	writeAgain = time.Second // after a budget could not be written
)

// ledgerLoop grants leases as they are asked for.
func (p *Prober) ledgerLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.ledger.bell:
		}
		for err := p.ledger.serve(time.Now()); err != nil; err = p.ledger.serve(time.Now()) {
			p.cfg.Log.Error("budgets cannot be written: lanes that need them wait", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(writeAgain):
			}
		}
	}
}

// tend notes each minute that the node is alive, and forgets what is idle.
func (p *Prober) tend(ctx context.Context) {
	t := time.NewTicker(tendEvery)
	defer t.Stop()
	for {
		now := time.Now()
		if err := p.cfg.Cache.PutBudgets([]cache.Budget{p.note(now.Add(tendEvery + tendEvery/2))}); err != nil {
			p.cfg.Log.Error("the node's clock was not written", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.dropIdle(time.Now())
		p.tellUnsaid(time.Now())
	}
}

// sweep sweeps the cache each hour; at the start as well if only that tells which addresses the cache has not.
func (p *Prober) sweep(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	if !p.cfg.Cache.Sieved() {
		p.sweepOnce(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if p.warming(time.Now().Add(-sweepEvery)) {
			p.SetTable(p.table.Load()) // gives lanes the budgets of their source's age
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

// dropIdle forgets lanes and destinations that hold nothing but full budgets; when lanes are many, also those whose hour is on
// disk. Nothing is written: what is on disk is never less than what was used.
func (p *Prober) dropIdle(now time.Time) {
	crowded := p.laneCount() > p.cfg.MaxLanes/2
	for _, l := range p.allLanes() {
		l.mu.Lock()
		l.dropUnproven(now)
		remembers := len(l.unproven) > 0 && !crowded
		drop := l.idle() && !remembers && now.After(l.opens()) && (l.pace.idle(now) || crowded && l.pace.minutesIdle(now))
		if drop {
			l.close()
		}
		l.mu.Unlock()
		if drop {
			p.forget(l)
		}
	}
	p.dests.dropIdle(now)
}

// close takes the lane out of use. The mutex is held.
func (l *lane) close() {
	l.dead = true
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// minutesIdle reports that only the hour's budget has anything to remember.
func (p *pace) minutesIdle(now time.Time) bool {
	return p.open == 0 && p.conns.idle(now) && p.rcpts.idle(now) && !now.Before(p.slow)
}

// dropIdle forgets destinations that are not in use and have full budgets. A lane that still stands there as waiting has
// sent its rows home, or finds its room by itself.
func (ds *destinations) dropIdle(now time.Time) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for k, d := range ds.all {
		d.mu.Lock()
		if d.refs == 0 && !d.asked && d.pace.idle(now) {
			delete(ds.all, k)
		}
		d.mu.Unlock()
	}
}

// shut ends all lanes and writes their budgets as they are: no lease is out any more.
func (p *Prober) shut(now time.Time) error {
	budgets := []cache.Budget{p.note(now)}
	for _, l := range p.allLanes() {
		l.mu.Lock()
		l.close()
		budgets = append(budgets, l.closing(now))
		l.mu.Unlock()
		p.forget(l)
	}
	p.dests.mu.Lock()
	for _, d := range p.dests.all {
		d.mu.Lock()
		budgets = append(budgets, d.closing(now))
		d.mu.Unlock()
	}
	p.dests.mu.Unlock()
	return p.cfg.Cache.PutBudgets(budgets)
}
