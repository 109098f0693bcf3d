package coordinator

import (
	"slices"

	"probity/engine"
	"probity/prober/wire"
)

const (
	windowsInFlight = 2   // windows of a class that may be under way: what is asked now, and what is next
	minChunkRows    = 256 // of a chunk of one class
	oldestEvery     = 4   // of so many turns, one is the oldest's
	maxEligibleScan = 1024
)

// sourceCounter is a prober that knows from how many identities it asks.
type sourceCounter interface{ Sources() int }

// providerOf is whose budgets the rows of a class want; nil for the tail, which is many routes.
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

// sourcesOf is how many identities ask a provider.
func (c *Coordinator) sourcesOf(p *engine.Provider) int {
	if s, ok := c.cfg.Prober.(sourceCounter); ok {
		return p.Sources(max(1, s.Sources()))
	}
	return 1
}

// tailWindow is the window of the tail for the prober of this process. Each of its rows may be a route of its own, which takes some
// kilobytes at the prober while it waits there for a connection.
const tailWindow = wire.MaxRows

// window is how many rows of a class its budgets take in about a minute, were half of them refused; maxUnanswered where the prober
// does not say how many identities there are.
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
		rows = min(rows, 2*n*sources) // an hour's budget may be spent in a burst
	}
	return rows
}

// A backlog is long that keeps its budgets busy for a day, were a tenth of its rows refused: to spend each hour evenly takes an
// hour more for all of it, so a twenty-fourth at the most.
const (
	longBacklogHours = 24 // hours
	refusedOneIn     = 10
)

// longBacklog reports a class whose hours are to be spent evenly, so that short jobs find some of each: its backlog, of all jobs, is
// long, or another class of the job will be busy for a day and longer than this one, were all of its rows refused.
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

// budgetHours is how long the hourly budgets of a class last for so many rows, were all refused; in the tail, those of one route. The
// desk is locked.
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

// splitFactor is how many times more rows the job has left than are at the scheduler, while it is split. The scheduler is locked.
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

// chunkRows is how many rows make a chunk of a class: no more than are soon asked, so that none of a slow route takes the room
// of others.
func (c *Coordinator) chunkRows(class string) int {
	return min(max(minChunkRows, windowsInFlight*c.window(class)), wire.MaxRows)
}

// nextEligible takes the class whose turn it is: the one whose rows will take the longest, so that it ends with the others; now and
// then the one that has waited longest. The scheduler is locked.
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
