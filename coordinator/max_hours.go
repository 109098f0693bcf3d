package coordinator

import (
	"math"
	"strings"

	"probity/coordinator/plan"
	"probity/engine"
	"probity/store"
)

// The bounds of the hours that a job may take.
const (
	MaxHours     = 720
	minAutoHours = 24      // of a job that does not say
	autoMargin   = 1.5     // times the plan, which counts no retries and no busy receivers
	maxCounted   = 1 << 16 // domains that are counted while a list arrives, next to the consumer domains of the table
)

// domainCounts are the addresses by domain while a list arrives, duplicates included. The consumer domains of the table are there from
// the start: so they are counted however many others come before them.
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
			n[strings.Clone(d)] = 1 // not with the text of the list
		}
	}
}

// autoHours is max_hours of a job whose sender does not say: what budgets alone take at least, with a margin. All that is known when a
// list is accepted is the names of its domains: consumer domains have a provider, and any other is taken for one at a host of its own.
func (c *Coordinator) autoHours(j *store.Job, counts domainCounts) int {
	if j.Test || j.NoSMTP {
		return minAutoHours
	}
	table, distinct := c.table.Load(), float64(j.Unique)/float64(max(1, j.Unique+j.Duplicates))
	due := func(n int) plan.Load { return plan.Expect(int(math.Ceil(float64(n)*distinct)), DefaultRefused) }
	consumer := newDomainCounts(table)
	var t plan.Tally
	largest, most := "", 0 // of the others: each has a route of its own, so the largest takes longest
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
