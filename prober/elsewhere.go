package prober

import (
	"cmp"
	"slices"
	"time"

	"probity/prober/wire"
)

// A narrow route has one source at a time in the whole cluster, and its hourly budget is the cluster's. When another source takes
// the route over, the coordinator tells it what the one before has used; so much less it has itself, until that is an hour old.

// elsewhere is what other sources have used of an hour's refusals, and until when it counts.
type elsewhere struct {
	used  int
	until time.Time
}

func (e *elsewhere) now(now time.Time) int {
	if now.Before(e.until) {
		return e.used
	}
	return 0
}

// told takes the coordinator's word of what other sources have used of the lane's budget. A newer word replaces an older one.
func (l *lane) told(e wire.Elsewhere, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace.elsewhere = elsewhere{e.Used, now.Add(e.Left)}
}

// spent lists what the lanes of narrow routes have used of their hour: what a source that takes one over must know.
func (p *Prober) spent(lanes []*lane, now time.Time) (all []wire.Spent) {
	for _, l := range lanes {
		if l.provider.Shared() {
			continue
		}
		l.mu.Lock()
		used := l.pace.refuse.heard(now) + l.pace.refuse.out
		l.mu.Unlock()
		if used > 0 {
			all = append(all, wire.Spent{Route: wire.RouteID(l.key.route), Egress: l.key.egress, Used: used})
		}
	}
	slices.SortFunc(all, func(a, b wire.Spent) int { return cmp.Compare(b.Used, a.Used) })
	return all[:min(len(all), wire.MaxSpent)]
}
