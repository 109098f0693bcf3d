package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// A wide provider is spread over all sources, and each has a budget of its own there. So a source that the provider wants no more
// of, or that rests everywhere, loses its share of that provider until its node says otherwise: its rows go to the others, as if
// it were not there. A narrow route has no other source: its rows stay, and are answered UNKNOWN.

// rests are the wide providers that sources do not ask now: source -> provider id, "" for all -> until when that is believed
// without a word of the node. Immutable.
type rests map[string]map[string]time.Time

const (
	restsEvery = 2 * time.Second  // what nodes say is looked at
	restBelief = 10 * time.Second // a refusal is believed so long before the node's status must say it too
)

// at reports that a source does not ask a provider.
func (r rests) at(identity, provider string) bool {
	on := r[identity]
	_, here := on[provider]
	_, everywhere := on[""]
	return here || everywhere
}

// equal reports the same sources resting at the same providers, whatever the times.
func (r rests) equal(other rests) bool {
	return maps.EqualFunc(r, other, func(a, b map[string]time.Time) bool {
		return maps.EqualFunc(a, b, func(time.Time, time.Time) bool { return true })
	})
}

// with is r and one more.
func (r rests) with(identity, provider string, until time.Time) rests {
	next := maps.Clone(r)
	if next == nil {
		next = rests{}
	}
	on := maps.Clone(next[identity])
	if on == nil {
		on = map[string]time.Time{}
	}
	on[provider], next[identity] = until, on
	return next
}

// heardRests is what the nodes' statuses say, and what is believed yet of what rows met.
func heardRests(old rests, members []*member, now time.Time) rests {
	next := rests{}
	for identity, on := range old {
		for provider, until := range on {
			if now.Before(until) {
				next = next.with(identity, provider, until)
			}
		}
	}
	for _, m := range members {
		for _, id := range m.client.Status().Identities {
			if id.State == wire.StateResting {
				next = next.with(id.Name, "", time.Time{})
			}
			for _, provider := range id.RestsAt {
				next = next.with(id.Name, provider, time.Time{})
			}
		}
	}
	return next
}

// tend follows what nodes say of their sources until ctx ends.
func (f *Fleet) tend(ctx context.Context) {
	tick := time.NewTicker(restsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now := time.Now()
			f.rest(heardRests(f.roster.Load().rests, f.all(), now), now)
			f.hearSpent(now)
		case <-ctx.Done():
			return
		}
	}
}

// rest publishes which sources rest where, when that has changed.
func (f *Fleet) rest(next rests, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.roster.Load()
	if old.rests.equal(next) {
		return
	}
	fresh := newRoster(old.view, f.members, old, now)
	fresh.settled = old.settled
	fresh.rests = next
	fresh.spread()
	f.roster.Store(fresh)
	close(old.replaced)
}

// spread finds who shares the providers at which somebody rests.
func (r *roster) spread() {
	r.wide = nil
	if len(r.rests) == 0 {
		return
	}
	r.wide = map[string]*shard.Set{}
	providers := map[string]bool{"": true}
	for _, on := range r.rests {
		for p := range on {
			providers[p] = true
		}
	}
	for p := range providers {
		left := slices.DeleteFunc(slices.Clone(r.set.All()), func(id shard.Identity) bool { return r.rests.at(id.Name, p) })
		if len(left) == 0 {
			left = r.set.All() // they say so themselves
		}
		r.wide[p] = mustSet(left)
	}
}

// sharing is who shares the keys of a wide provider now.
func (r *roster) sharing(p *engine.Provider) *shard.Set {
	if s := r.wide[p.ID]; s != nil {
		return s
	}
	if s := r.wide[""]; s != nil {
		return s
	}
	return r.set
}

// elsewhere turns rows that a source may not ask into rows that come again, where another source shares their provider.
func (f *Fleet) elsewhere(p *part, rows []wire.Result) []wire.Result {
	for i := range rows {
		v := &rows[i].Verdict
		if rows[i].Outcome != wire.Settled || v.Rule != engine.RuleSourceBlocked {
			continue
		}
		provider := f.cfg.Table().Provider(v.ProviderID)
		if provider == nil || provider.Kind != engine.KindWide {
			continue
		}
		now := time.Now()
		r := f.roster.Load()
		if !r.rests.at(p.owner.identity, provider.ID) {
			f.rest(r.rests.with(p.owner.identity, provider.ID, now.Add(restBelief)), now)
			r = f.roster.Load()
		}
		if open := r.sharing(provider); !slices.ContainsFunc(open.All(), func(id shard.Identity) bool { return !r.rests.at(id.Name, provider.ID) }) {
			continue // no source may ask: that is the answer
		}
		rows[i].Outcome, rows[i].Due = wire.Later, now.Add(time.Second)
	}
	return rows
}
