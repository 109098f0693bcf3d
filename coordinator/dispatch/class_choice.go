package dispatch

import "slices"

// A backlog is long if it keeps its budgets busy for a day when a tenth of its rows is refused. Even use of each hour
// prolongs it by one hour in total, so by at most a twenty-fourth.
const (
	longBacklogHours = 24
	refusedOneIn     = 10
)

// compare compares a job with the other scheduled ones. short: it has far fewer rows left than another one.
// longBacklog: the hourly budgets of a class of it are to be used evenly, so that each hour leaves some for short jobs.
// That is so if the class's backlog, of all jobs, is long, or if another class of the job will take a day, and longer
// than this one would if all of its rows were refused.
func (s *Scheduler) compare(job *Job, class string) (short, longBacklog bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, largest := 0.0, int64(0)
	for _, one := range s.jobs {
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

// shortJobRatio is how many times longer another job must be for this one to count as short. A short job gets most of
// the turns at each receiver: it ends soon, and delays the long one little.
const shortJobRatio = 4

// remaining returns how many addresses of the job have no verdict yet.
func (job *Job) remaining() int64 {
	t := job.cfg.Progress.Counts()
	return job.cfg.Record.Unique - t.Answered()
}

// splitFactor is the ratio of the job's remaining rows to those at the scheduler, while the job is split. The scheduler
// is locked.
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

const (
	oldestEvery     = 4    // one of this many picks goes to the class that has waited longest
	maxEligibleScan = 1024 // eligible classes that are compared for a pick
)

// nextEligible takes the next class: the one whose rows will take longest, so that all classes end together; each
// oldestEvery-th pick is the one that has waited longest. The scheduler is locked.
func (job *Job) nextEligible() *classQueue {
	if len(job.eligible) == 0 {
		return nil
	}
	best := 0
	job.picks++
	if job.picks%oldestEvery != 0 {
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

// windowsNeeded returns how many windows the rows of a class fill: about the minutes that they take. The scheduler is
// locked.
func (job *Job) windowsNeeded(q *classQueue) float64 {
	return float64(q.rows) / float64(job.scheduler.budgets.window(q.class))
}
