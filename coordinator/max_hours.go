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
func (n domainCounts) autoHours(j *store.Job, table *engine.Table, sources int) int {
	if j.Test || j.NoSMTP {
		return minAutoHours
	}
	distinct := float64(j.Unique) / float64(max(1, j.Unique+j.Duplicates))
	due := func(rows int) plan.Load { return plan.Expect(int(math.Ceil(float64(rows)*distinct)), DefaultRefused) }
	consumer := newDomainCounts(table)
	var t plan.Tally
	largest, most := "", 0 // of the other domains: each has a route of its own, so the largest takes longest
	for name, rows := range n {
		if _, known := consumer[name]; known && rows > 0 {
			t.AddUnrouted(table, name, due(rows))
		} else if rows > most {
			largest, most = name, rows
		}
	}
	if most > 0 {
		t.AddUnrouted(table, largest, due(most))
	}
	hours := math.Ceil(autoMargin * t.Plan(sources).MinTime.Hours())
	return int(min(max(minAutoHours, hours), MaxHours))
}
