package readyqueue

import (
	"time"

	"probity/prober/budget"
)

// A narrow route has one source at a time in the whole cluster, and its hourly budget is the cluster's. When another source
// takes the route over, the coordinator says what the former sources have used; that is taken from its budget until it is an
// hour old.

// SetUsedByOthers records what, as the coordinator says, other sources have used of the queue's budget, and until when that counts. A
// newer report replaces an older one.
func (q *Queue) SetUsedByOthers(used int, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budget.UsedByOthers = budget.OthersUsage{Used: used, Until: until}
}
