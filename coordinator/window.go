package coordinator

import (
	"slices"

	"probity/engine"
	"probity/prober/wire"
)

const (
	windowsInFlight = 2    // windows of a class that may be in flight: the current one and the next
	minChunkRows    = 256  // least rows of a full chunk
	oldestEvery     = 4    // one of this many picks goes to the class that has waited longest
	maxEligibleScan = 1024 // eligible classes that are compared for a pick
)

// sourceCounter is a prober that knows its number of egress sources.
type sourceCounter interface{ Sources() int }

// sources returns how many egress sources there are, as far as the prober knows.
func (c *Coordinator) sources() int {
	if s, ok := c.cfg.Prober.(sourceCounter); ok {
		return s.Sources()
	}
	return 1
}

// providerOf returns the provider whose budgets apply to a class; nil for the tail, which is many routes.
func (c *Coordinator) providerOf(class string) *engine.Provider {
	if class == classTail {
		return nil
	}
	table := c.table.Load()
	if p := table.Provider(class); p != nil {
		return p
	}
	return table.Unknown
}

// sourcesOf returns how many egress sources probe a provider.
func (c *Coordinator) sourcesOf(p *engine.Provider) int {
	if s, ok := c.cfg.Prober.(sourceCounter); ok {
		return p.Sources(max(1, s.Sources()))
	}
	return 1
}

// tailWindow is the window of the tail. Each of its rows may be a route of its own, which takes some kilobytes at the prober while
// it waits there for a connection.
const tailWindow = wire.MaxRows

// window returns how many rows of a class its budgets allow in about a minute if half of them are refused; maxUnanswered if the
// prober does not know its number of egress sources.
func (c *Coordinator) window(class string) int {
	p := c.providerOf(class)
	if _, ok := c.cfg.Prober.(sourceCounter); !ok {
		return maxUnanswered
	}
	if p == nil {
		return tailWindow
	}
	rows, sources := maxUnanswered, c.sourcesOf(p)
	if n := p.Limits.RecipientsPerMinute; n > 0 {
		rows = min(rows, n*sources)
	}
	if n := p.Limits.RefusalsPerHour; n > 0 {
		rows = min(rows, 2*n*sources) // an hourly budget may be used in a burst
	}
	return rows
}

// A backlog is long if it keeps its budgets busy for a day when a tenth of its rows is refused. Even use of each hour prolongs it by
// one hour in total, so by at most a twenty-fourth.
const (
	longBacklogHours = 24
	refusedOneIn     = 10
)

// longBacklog reports whether the hourly budgets of a class are to be used evenly, so that each hour leaves some for short jobs.
// That is so if the class's backlog, of all jobs, is long, or if another class of the job will take a day, and longer than this
// one would if all of its rows were refused.
func (d *scheduler) longBacklog(job *runningJob, class string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := 0.0
	for _, one := range d.jobs {
		if q := one.queues[class]; q != nil {
			rows += float64(q.rows+q.unanswered) * one.splitFactor()
		}
	}
	most, longest := job.c.budgetHours(class, rows), 0.0
	if most >= longBacklogHours*refusedOneIn {
		return true
	}
	for _, q := range job.queues {
		longest = max(longest, job.c.budgetHours(q.class, float64(q.rows+q.unanswered)))
	}
	longest *= job.splitFactor() / refusedOneIn
	return most > 0 && longest >= max(longBacklogHours, most+1)
}

// budgetHours returns how many hours of budgets rows of a class need if all are refused; in the tail, rows of one route. The
// scheduler is locked.
func (c *Coordinator) budgetHours(class string, rows float64) float64 {
	p := c.providerOf(class)
	if p == nil {
		p, rows = c.table.Load().Unknown, min(rows, sharedRowsOfRoute)
	}
	if p.Limits.RefusalsPerHour == 0 {
		return 0
	}
	return rows / float64(p.Limits.RefusalsPerHour*c.sourcesOf(p))
}

// splitFactor is the ratio of the job's remaining rows to those at the scheduler, while the job is split. The scheduler is locked.
func (job *runningJob) splitFactor() float64 {
	if job.splitDone.Load() {
		return 1
	}
	rows := 0
	for _, q := range job.queues {
		rows += q.rows + q.unanswered
	}
	return max(1, float64(job.remaining())/float64(max(1, rows)))
}

// chunkRows is how many rows make a full chunk of a class: no more than are soon probed, so that a chunk of a slow route does not
// fill the in-flight limit.
func (c *Coordinator) chunkRows(class string) int {
	return min(max(minChunkRows, windowsInFlight*c.window(class)), wire.MaxRows)
}

// nextEligible takes the next class: the one whose rows will take longest, so that all classes end together; each oldestEvery-th
// pick is the one that has waited longest. The scheduler is locked.
func (job *runningJob) nextEligible() *classQueue {
	if len(job.eligible) == 0 {
		return nil
	}
	best := 0
	if job.picks++; job.picks%oldestEvery != 0 {
		longest := job.windowsNeeded(job.eligible[0])
		for i, q := range job.eligible[1:min(len(job.eligible), maxEligibleScan)] {
			if t := job.windowsNeeded(q); t > longest {
				best, longest = i+1, t
			}
		}
	}
	q := job.eligible[best]
	job.eligible = slices.Delete(job.eligible, best, best+1)
	q.eligible = false
	return q
}

// windowsNeeded is how many windows the rows of a class fill: about the minutes that they take. The scheduler is locked.
func (job *runningJob) windowsNeeded(q *classQueue) float64 {
	return float64(q.rows) / float64(job.c.window(q.class))
}
