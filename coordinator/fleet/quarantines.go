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

// A wide provider is spread over all sources, and each has its own budget there. So a source that is quarantined at the provider, or
// everywhere, loses its share of that provider until its node reports the end: its rows go to the other sources. A narrow route has
// no other source: its rows stay, and are answered UNKNOWN.

// quarantines are the wide providers at which sources are quarantined: source -> provider id, "" for all -> until when that holds
// without a status of the node. Immutable.
type quarantines map[string]map[string]time.Time

const (
	statusInterval  = 2 * time.Second  // between two readings of the nodes' statuses
	quarantineGrace = 10 * time.Second // a quarantine seen in a row's result holds so long before the node's status must confirm it
)

// has reports that a source is quarantined at a provider, or everywhere.
func (r quarantines) has(identity, provider string) bool {
	byProvider := r[identity]
	_, atProvider := byProvider[provider]
	_, everywhere := byProvider[""]
	return atProvider || everywhere
}

// equal reports that the same sources are quarantined at the same providers, whatever the times.
func (r quarantines) equal(other quarantines) bool {
	return maps.EqualFunc(r, other, func(a, b map[string]time.Time) bool {
		return maps.EqualFunc(a, b, func(time.Time, time.Time) bool { return true })
	})
}

// with returns r with one more quarantine.
func (r quarantines) with(identity, provider string, until time.Time) quarantines {
	next := maps.Clone(r)
	if next == nil {
		next = quarantines{}
	}
	byProvider := maps.Clone(next[identity])
	if byProvider == nil {
		byProvider = map[string]time.Time{}
	}
	byProvider[provider], next[identity] = until, byProvider
	return next
}

// reportedQuarantines joins what the nodes' statuses say with what rows' results said, while that holds.
func reportedQuarantines(old quarantines, members []*member, now time.Time) quarantines {
	next := quarantines{}
	for identity, byProvider := range old {
		for provider, until := range byProvider {
			if now.Before(until) {
				next = next.with(identity, provider, until)
			}
		}
	}
	for _, m := range members {
		for _, id := range m.client.Status().Identities {
			if id.State == wire.StateQuarantined {
				next = next.with(id.Name, "", time.Time{})
			}
			for _, provider := range id.QuarantinedAt {
				next = next.with(id.Name, provider, time.Time{})
			}
		}
	}
	return next
}

// followStatuses reads quarantines and budget usage from the nodes' statuses until ctx ends.
func (f *Fleet) followStatuses(ctx context.Context) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now := time.Now()
			f.setQuarantines(reportedQuarantines(f.membership.Load().quarantines, f.allMembers(), now), now)
			f.updateUsage(now)
		case <-ctx.Done():
			return
		}
	}
}

// setQuarantines publishes which sources are quarantined where, if that has changed.
func (f *Fleet) setQuarantines(next quarantines, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.membership.Load()
	if old.quarantines.equal(next) {
		return
	}
	updated := newMembership(old.view, f.members, old, now)
	updated.startDelayEnd = old.startDelayEnd
	updated.quarantines = next
	updated.updateWideSets()
	f.membership.Store(updated)
	close(old.replaced)
}

// updateWideSets computes the sources that share each provider at which one is quarantined.
func (r *membership) updateWideSets() {
	r.wideSets = nil
	if len(r.quarantines) == 0 {
		return
	}
	r.wideSets = map[string]*shard.Set{}
	providers := map[string]bool{"": true}
	for _, byProvider := range r.quarantines {
		for p := range byProvider {
			providers[p] = true
		}
	}
	for p := range providers {
		left := slices.DeleteFunc(slices.Clone(r.set.All()), func(id shard.Identity) bool { return r.quarantines.has(id.Name, p) })
		if len(left) == 0 {
			left = r.set.All() // all are quarantined: each row's result says so
		}
		r.wideSets[p] = mustSet(left)
	}
}

// sharersOf is the set of sources that share the keys of a wide provider now.
func (r *membership) sharersOf(p *engine.Provider) *shard.Set {
	if s := r.wideSets[p.ID]; s != nil {
		return s
	}
	if s := r.wideSets[""]; s != nil {
		return s
	}
	return r.set
}

// redirectBlocked returns rows for which the source is blocked, if another source shares their provider.
func (f *Fleet) redirectBlocked(p *part, rows []wire.Result) []wire.Result {
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
		r := f.membership.Load()
		if !r.quarantines.has(p.owner.identity, provider.ID) {
			f.setQuarantines(r.quarantines.with(p.owner.identity, provider.ID, now.Add(quarantineGrace)), now)
			r = f.membership.Load()
		}
		if sharers := r.sharersOf(provider); !slices.ContainsFunc(sharers.All(), func(id shard.Identity) bool { return !r.quarantines.has(id.Name, provider.ID) }) {
			continue // every source is quarantined: that is the answer
		}
		rows[i].Outcome, rows[i].Due = wire.Returned, now.Add(time.Second)
	}
	return rows
}
