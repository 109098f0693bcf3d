package prober

import (
	"cmp"
	"slices"
	"time"

	"probity/prober/budget"
	"probity/prober/wire"
)

// A narrow route has one source at a time in the whole cluster, and its hourly budget is the cluster's. When another source
// takes the route over, the coordinator says what the former sources have used; that is taken from its budget until it is an
// hour old.

// setUsedByOthers records what, as the coordinator says, other sources have used of the queue's budget. A newer report replaces
// an older one.
func (q *readyQueue) setUsedByOthers(e wire.UsedByOthers, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budget.UsedByOthers = budget.OthersUsage{Used: e.Used, Until: now.Add(e.Left)}
}

// narrowUsage lists what the queues of narrow routes have used of their hour: a source that takes one over must know it.
func (p *Prober) narrowUsage(queues []*readyQueue, now time.Time) (all []wire.BudgetUse) {
	for _, q := range queues {
		if q.provider.Shared() {
			continue
		}
		q.mu.Lock()
		settled, reserved := q.budget.Refusals(now)
		q.mu.Unlock()
		if used := settled + reserved; used > 0 {
			all = append(all, wire.BudgetUse{Route: wire.RouteID(q.key.route), Egress: q.key.source, Used: used})
		}
	}
	slices.SortFunc(all, func(a, b wire.BudgetUse) int { return cmp.Compare(b.Used, a.Used) })
	return all[:min(len(all), wire.MaxBudgetUses)]
}
