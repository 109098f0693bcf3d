package ingest

import (
	"math"
	"time"

	"probity/coordinator/plan"
	"probity/engine"
	"probity/store"
)

// Limits of a job's max_hours.
const (
	MaxHours     = 720
	minAutoHours = 24      // of a job without max_hours
	autoMargin   = 1.5     // factor on the plan, which does not include retries and busy receivers
	maxCounted   = 1 << 16 // domains that are counted while a list is received, with the table's consumer domains
)

// consumerDomains has the consumer domains of the table, each zero times. With them a count begins, so that they are
// counted even after maxCounted others.
func consumerDomains(t *engine.Table) map[string]int {
	counts := map[string]int{}
	for _, p := range t.Providers {
		for _, name := range p.ByAddress {
			counts[name] = 0
		}
	}
	return counts
}

// leastTime is the least time that budgets allow for a job. When a list is accepted, only the names of its domains are
// known: consumer domains have a provider, and any other domain is assumed to have a host of its own.
func (r *Receiver) leastTime(j *store.Job, counts map[string]int) time.Duration {
	if j.Test || j.NoSMTP {
		return 0
	}
	table, distinct := r.cfg.Table(), float64(j.Unique)/float64(max(1, j.Unique+j.Duplicates))
	due := func(n int) plan.Load { return plan.Expect(int(math.Ceil(float64(n)*distinct)), plan.DefaultRefused) }
	consumer := consumerDomains(table)
	var t plan.Tally
	largest, most := "", 0 // of the other domains: each has a route of its own, so the largest takes longest
	for name, n := range counts {
		if _, known := consumer[name]; known && n > 0 {
			t.AddUnrouted(table, name, due(n))
		} else if n > most {
			largest, most = name, n
		}
	}
	if most > 0 {
		t.AddUnrouted(table, largest, due(most))
	}
	return t.Plan(r.cfg.Sources()).MinTime
}

// autoHours is the default max_hours of a job that takes at least so long.
func autoHours(least time.Duration) int {
	return int(min(max(minAutoHours, math.Ceil(autoMargin*least.Hours())), MaxHours))
}
