package coordinator

import (
	"math"
	"strings"

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

// domainCounts counts addresses by domain while a list is received, duplicates included. It starts with the consumer domains of
// the table, so that they are counted even after maxCounted others.
type domainCounts map[string]int

func newDomainCounts(t *engine.Table) domainCounts {
	counts := domainCounts{}
	for _, p := range t.Providers {
		for _, name := range p.ByAddress {
			counts[name] = 0
		}
	}
	return counts
}

func (n domainCounts) add(domains []string) {
	for _, d := range domains {
		if was, known := n[d]; known {
			n[d] = was + 1
		} else if len(n) < maxCounted {
			n[strings.Clone(d)] = 1 // do not keep the text of the block
		}
	}
}

// autoHours is the default max_hours of a job: the least time that budgets allow, with a margin. When a list is accepted, only the
// names of its domains are known: consumer domains have a provider, and any other domain is assumed to have a host of its own.
func (c *Coordinator) autoHours(j *store.Job, counts domainCounts) int {
	if j.Test || j.NoSMTP {
		return minAutoHours
	}
	table, distinct := c.table.Load(), float64(j.Unique)/float64(max(1, j.Unique+j.Duplicates))
	due := func(n int) plan.Load { return plan.Expect(int(math.Ceil(float64(n)*distinct)), DefaultRefused) }
	consumer := newDomainCounts(table)
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
	sources := 1
	if s, ok := c.cfg.Prober.(sourceCounter); ok {
		sources = s.Sources()
	}
	hours := math.Ceil(autoMargin * t.Plan(sources).MinTime.Hours())
	return int(min(max(minAutoHours, hours), MaxHours))
}
