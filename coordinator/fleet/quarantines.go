package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// A wide provider is spread over all sources, and each has its own budget there. So a source that is quarantined at the
// provider, or everywhere, loses its share of that provider until its node reports the end: its rows go to the other
// sources. A narrow route has no other source: its rows stay, and are answered UNKNOWN.

// quarantines are the wide providers at which sources are quarantined, and until when that holds without a status of
// the node. Those of a membership are immutable.
type quarantines map[quarantine]time.Time

type quarantine struct {
	identity string
	provider string // id; "" for all
}

const (
	statusInterval = 2 * time.Second // between two readings of the nodes' statuses
	// a quarantine seen in a row's result holds so long before the node's status must confirm it
	quarantineGrace = 10 * time.Second
)

// has reports whether a source is quarantined at a provider, or everywhere.
func (q quarantines) has(identity, provider string) bool {
	_, atProvider := q[quarantine{identity, provider}]
	_, everywhere := q[quarantine{identity, ""}]
	return atProvider || everywhere
}

// add adds what a node's status says.
func (q quarantines) add(status wire.Status) {
	for _, id := range status.Identities {
		if id.State == wire.StateQuarantined {
			q[quarantine{id.Name, ""}] = time.Time{}
		}
		for _, provider := range id.QuarantinedAt {
			q[quarantine{id.Name, provider}] = time.Time{}
		}
	}
}

// followStatuses reads quarantines and budget usage from the nodes' statuses until ctx ends.
func (f *Fleet) followStatuses(ctx context.Context) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		next := maps.Clone(f.membership.Load().quarantines) // what rows' results said, while that holds
		maps.DeleteFunc(next, func(_ quarantine, until time.Time) bool { return !now.Before(until) })
		var statuses []wire.Status
		for _, m := range f.allMembers() {
			status := m.client.Status()
			next.add(status)
			if m.client.State().Live {
				statuses = append(statuses, status)
			}
		}
		f.usage.update(statuses, now)
		f.setQuarantines(next)
	}
}

// setQuarantines publishes which sources are quarantined where, if that has changed.
func (f *Fleet) setQuarantines(next quarantines) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.membership.Load()
	if maps.EqualFunc(old.quarantines, next, func(time.Time, time.Time) bool { return true }) {
		return
	}
	updated := *old
	updated.quarantines, updated.replaced = next, make(chan struct{})
	updated.updateWideSets()
	f.membership.Store(&updated)
	close(old.replaced)
}

// updateWideSets computes the sources that share each provider at which one is quarantined.
func (m *membership) updateWideSets() {
	m.wideSets = nil
	if len(m.quarantines) == 0 {
		return
	}
	providers := map[string]bool{"": true}
	for q := range m.quarantines {
		providers[q.provider] = true
	}
	m.wideSets = map[string]*shard.Set{}
	for p := range providers {
		left := slices.DeleteFunc(slices.Clone(m.set.All()),
			func(id shard.Identity) bool { return m.quarantines.has(id.Name, p) })
		if len(left) == 0 {
			left = m.set.All() // all are quarantined: each row's result says so
		}
		m.wideSets[p] = next(m.set, left)
	}
}

// sharersOf is the set of sources that share the keys of a wide provider now.
func (m *membership) sharersOf(p *engine.Provider) *shard.Set {
	return cmp.Or(m.wideSets[p.ID], m.wideSets[""], m.set)
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
		identity := p.identityOf(rows[i].Row)
		if !r.quarantines.has(identity, provider.ID) {
			next := maps.Clone(r.quarantines)
			next[quarantine{identity, provider.ID}] = now.Add(quarantineGrace)
			f.setQuarantines(next)
			r = f.membership.Load()
		}
		if sharers := r.sharersOf(provider); !slices.ContainsFunc(sharers.All(),
			func(id shard.Identity) bool { return !r.quarantines.has(id.Name, provider.ID) }) {
			continue // every source is quarantined: that is the answer
		}
		rows[i].Outcome, rows[i].Due = wire.Returned, now.Add(time.Second)
	}
	return rows
}
