package prober

import (
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
