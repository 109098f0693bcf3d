package dispatch

import (
	"cmp"
	"slices"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/prober/wire"
)

const (
	windowsInFlight = 2    // windows of a class that may be in flight: the current one and the next
	minChunkRows    = 256  // least rows of a full chunk
	oldestEvery     = 4    // one of this many picks goes to the class that has waited longest
	maxEligibleScan = 1024 // eligible classes that are compared for a pick
)

// classBudgets says what the budgets of a class allow.
type classBudgets struct {
	table   func() *engine.Table
	sources func() int // egress sources; nil: unknown
}

// limitsOf returns the limits of a class, of one egress source, and how many sources probe it; of the tail, those of one route.
func (b *classBudgets) limitsOf(class string) (engine.Limits, int) {
	table := b.table()
	p := cmp.Or(table.Provider(class), table.Unknown)
	if b.sources == nil {
		return p.Limits, 1
	}
	return p.Limits, p.Sources(max(1, b.sources()))
}

// refusalsPerHour returns how many refusals the budgets of a class allow in an hour; 0: any number.
func (b *classBudgets) refusalsPerHour(class string) int {
	limits, sources := b.limitsOf(class)
	return limits.RefusalsPerHour * sources
}

// tailWindow is the window of the tail. Each of its rows may be a route of its own, which takes some kilobytes at the prober while
// it waits there for a connection.
const tailWindow = wire.MaxRows

// window returns how many rows of a class its budgets allow in about a minute if half of them are refused; maxUnanswered if the
// prober does not know its number of egress sources.
func (b *classBudgets) window(class string) int {
	if b.sources == nil {
		return maxUnanswered
	}
	if class == chunks.ClassTail {
		return tailWindow
	}
	rows := maxUnanswered
	limits, sources := b.limitsOf(class)
	if n := limits.RecipientsPerMinute; n > 0 {
		rows = min(rows, n*sources)
	}
	if n := limits.RefusalsPerHour; n > 0 {
		rows = min(rows, 2*n*sources) // an hourly budget may be used in a burst
	}
	return rows
}

// chunkRows is how many rows make a full chunk of a class: no more than are soon probed, so that a chunk of a slow route does not
// fill the in-flight limit.
func (b *classBudgets) chunkRows(class string) int {
	return min(max(minChunkRows, windowsInFlight*b.window(class)), wire.MaxRows)
}

// hours returns how many hours of budgets rows of a class need if all are refused; in the tail, rows of one route.
func (b *classBudgets) hours(class string, rows float64) float64 {
	if class == chunks.ClassTail {
		rows = min(rows, chunks.MaxTailRows)
	}
	n := b.refusalsPerHour(class)
	if n == 0 {
		return 0
	}
	return rows / float64(n)
}

// A backlog is long if it keeps its budgets busy for a day when a tenth of its rows is refused. Even use of each hour prolongs it by
// one hour in total, so by at most a twenty-fourth.
const (
	longBacklogHours = 24
	refusedOneIn     = 10
)

// compare compares a job with the other scheduled ones. short: it has far fewer rows left than another one. longBacklog: the hourly
// budgets of a class of it are to be used evenly, so that each hour leaves some for short jobs. That is so if the class's backlog, of
// all jobs, is long, or if another class of the job will take a day, and longer than this one would if all of its rows were refused.
func (d *Scheduler) compare(job *Job, class string) (short, longBacklog bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, largest := 0.0, int64(0)
	for _, one := range d.jobs {
		if q := one.queues[class]; q != nil {
			rows += float64(q.rows+q.unanswered) * one.splitFactor()
		}
		largest = max(largest, one.remaining())
	}
	short = shortJobRatio*job.remaining() <= largest
	most, longest := job.scheduler.budgets.hours(class, rows), 0.0
	if most >= longBacklogHours*refusedOneIn {
		return short, true
	}
	for _, q := range job.queues {
		longest = max(longest, job.scheduler.budgets.hours(q.class, float64(q.rows+q.unanswered)))
	}
	longest *= job.splitFactor() / refusedOneIn
	return short, most > 0 && longest >= max(longBacklogHours, most+1)
}

// shortJobRatio is how many times longer another job must be for this one to count as short. A short job gets most of the
// turns at each receiver: it ends soon, and delays the long one little.
const shortJobRatio = 4

// remaining returns how many addresses of the job have no verdict yet.
func (job *Job) remaining() int64 {
	t := job.cfg.Progress.Counts()
	return job.cfg.Record.Unique - t.Answered()
}

// splitFactor is the ratio of the job's remaining rows to those at the scheduler, while the job is split. The scheduler is locked.
func (job *Job) splitFactor() float64 {
	if job.splitDone.Load() {
		return 1
	}
	rows := 0
	for _, q := range job.queues {
		rows += q.rows + q.unanswered
	}
	return max(1, float64(job.remaining())/float64(max(1, rows)))
}

// nextEligible takes the next class: the one whose rows will take longest, so that all classes end together; each oldestEvery-th
// pick is the one that has waited longest. The scheduler is locked.
func (job *Job) nextEligible() *classQueue {
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
func (job *Job) windowsNeeded(q *classQueue) float64 {
	return float64(q.rows) / float64(job.scheduler.budgets.window(q.class))
}
