package fleet

import (
	"slices"
	"sync"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// What each source has used of the hourly budget of each narrow route, as its node last reported. The source that takes
// the route over is told, so that the receiver's budget holds across sources. Rows sent to a lost node and not answered
// count as used. After a start, the budget of a source that had a share and has not reported yet counts as used up for
// an hour; in the simulated internet the hour is divided by the speed-up.

// maxUsageRoutes bounds the routes that are tracked. A route beyond it starts with a fresh hourly budget when it moves.
const maxUsageRoutes = 200_000

// clusterUsage is the budget usage of the cluster. Safe for concurrent use.
type clusterUsage struct {
	mu     sync.Mutex // guards what follows
	routes routeUsage

	previous   *shard.Set      // which identities had a share when the process before this one ended; nil for none
	unreported map[string]bool // of these, those that have not reported since
	expiresAt  time.Time       // when what they used before is over an hour old
}

// routeUsage is what sources have used, by route.
type routeUsage map[uint64][]sourceUsage

// sourceUsage is what one source has used of a route's hourly budget.
type sourceUsage struct {
	identity string
	used     int
	at       time.Time // when it was last reported
}

// update takes the budget usage from the statuses of nodes, which may not have room for all of their routes, and drops
// what is over an hour old.
func (c *clusterUsage) update(statuses []wire.Status, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range statuses {
		for _, id := range statuses[i].Identities {
			delete(c.unreported, id.Name)
		}
		for _, one := range statuses[i].BudgetUses {
			c.routes.set(one.Route, one.Egress, one.Used, now)
		}
	}
	for id, of := range c.routes {
		of = slices.DeleteFunc(of, func(one sourceUsage) bool { return now.Sub(one.at) >= time.Hour })
		c.routes[id] = of
		if len(of) == 0 {
			delete(c.routes, id)
		}
	}
}

// set sets what a source has used.
func (r routeUsage) set(route uint64, identity string, used int, now time.Time) {
	of := r[route]
	for i := range of {
		if of[i].identity == identity {
			of[i].used, of[i].at = used, now
			return
		}
	}
	if len(of) == 0 && len(r) >= maxUsageRoutes {
		return
	}
	r[route] = append(of, sourceUsage{identity, used, now})
}

// addUnanswered counts a row that was sent to a source and not answered as a refusal, up to the hourly limit.
func (c *clusterUsage) addUnanswered(route *engine.Route, identity string, now time.Time) {
	limit := route.Provider.Limits.RefusalsPerHour
	if limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, used := wire.RouteID(route.Key), 0
	for _, one := range c.routes[id] {
		if one.identity == identity {
			used = one.used
		}
	}
	c.routes.set(id, identity, min(used+1, limit), now)
}

// usedByOthers returns what all but one source have used of a narrow route's hourly budget. At other providers each
// source has its own.
func (c *clusterUsage) usedByOthers(route *engine.Route, except string, now time.Time) (e wire.UsedByOthers) {
	if route.Provider.Shared() {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.routes[wire.RouteID(route.Key)] {
		if left := one.at.Add(time.Hour).Sub(now); one.identity != except && left > 0 {
			e.Used += one.used
			e.Left = max(e.Left, left)
		}
	}
	limit := route.Provider.Limits.RefusalsPerHour
	if limit == 0 || c.previous == nil || len(c.unreported) == 0 || !now.Before(c.expiresAt) {
		return e
	}
	if id, ok := c.previous.Owner(shard.Route(route.Key)); ok && id.Name != except && c.unreported[id.Name] {
		// its owner has not reported since this coordinator started
		e.Used, e.Left = e.Used+limit, max(e.Left, c.expiresAt.Sub(now))
	}
	return e
}

// restore notes which identities had a share when the process before this one ended, and until when that matters.
func (c *clusterUsage) restore(ids []shard.Identity, until time.Time) {
	set, err := shard.New(ids)
	if err != nil {
		return // such a set was never in use
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.previous, c.expiresAt, c.unreported = set, until, map[string]bool{}
	for _, id := range ids {
		c.unreported[id.Name] = true
	}
}
