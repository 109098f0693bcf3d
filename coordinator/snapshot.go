package coordinator

import (
	"cmp"
	"slices"
	"time"

	"probity/coordinator/plan"
	"probity/engine"
	"probity/store"
)

// Snapshot is a job's record with its current progress.
type Snapshot struct {
	store.Job
	Answered      int64                   // distinct addresses with a verdict
	Processed     int64                   // finished rows; a lower bound
	ByStatus      map[engine.Status]int64 // distinct addresses while the job runs, rows once it is finished
	ByReason      map[string]int64        // the same
	Rate          float64                 // recent addresses per second; of a finished job, rows per second over its whole time
	ETA           time.Duration           // the longest of its classes, and at least until all delayed rows are due; 0 if unknown
	PendingRetry  int64                   // deferred rows that wait for their next attempt
	WaitingBudget int64                   // rows that wait for a budget
	Waiting       []WaitingClass          // the classes with the most rows that are ready or wait for a budget
}

// WaitingClass is a class with waiting rows.
type WaitingClass struct {
	Class string
	Rows  int64
	Until time.Time     // end of the wait for a budget; zero: none
	ETA   time.Duration // at the rate of the class so far; 0 if unknown

	asked  int64 // rows in flight that do not wait for a budget
	budget int64 // of Rows, those that wait for a budget
}

const maxWaitingClasses = 10

// classDNS is the class of rows that wait for DNS: their real class is not known yet.
const classDNS = "dns"

// Snapshot returns the current state of a job.
func (c *Coordinator) Snapshot(id string) (Snapshot, error) {
	j, err := c.cfg.Store.Job(id)
	if err != nil {
		return Snapshot{}, err
	}
	if j.State.Finished() && j.Counts != nil {
		return FinishedSnapshot(j), nil
	}
	s := Snapshot{Job: *j, ByStatus: map[engine.Status]int64{}, ByReason: map[string]int64{}}
	c.mu.Lock()
	r := c.runners[id]
	if r == nil {
		c.mu.Unlock()
		return s, nil
	}
	job, counts, duplicates := r.running, r.lastCounts, r.lastDuplicates
	s.Error = cmp.Or(r.failures.problem, s.Error)
	c.mu.Unlock()
	if job != nil {
		now := time.Now()
		counts = job.progress.answerCounts()
		s.setCounts(&counts)
		s.Processed = s.Answered + job.doneDuplicates(now, recountEvery) + j.Blank
		if s.Answered == j.Unique {
			s.Processed = j.Rows
		}
		c.scheduler.describe(job, &s, now)
		return s, nil
	}
	// The job is paused, or its result is being written: it shows the last counts.
	s.setCounts(&counts)
	if s.Answered > 0 {
		s.Processed = s.Answered + duplicates + s.Blank
	}
	if s.State == store.JobFinalizing && !s.Cancelled {
		s.Processed = s.Rows
	}
	return s, nil
}

// FinishedSnapshot makes the snapshot of a finished job from its record alone.
func FinishedSnapshot(j *store.Job) Snapshot {
	s := Snapshot{Job: *j, Answered: j.Unique, Processed: j.Rows, ByStatus: map[engine.Status]int64{}, ByReason: j.Reasons}
	done := -j.Reasons[engine.ReasonCancelled.String()]
	for i := engine.Unknown; i <= engine.Invalid; i++ {
		s.ByStatus[i] = j.Counts[i.String()]
		done += s.ByStatus[i]
	}
	if took := j.FinishedAt.Sub(j.StartedAt).Seconds(); took > 0 && !j.StartedAt.IsZero() {
		s.Rate = float64(done) / took
	}
	return s
}

func (s *Snapshot) setCounts(t *answerCounts) {
	s.Answered = t.answered()
	for i, n := range t {
		r := engine.Reason(i)
		s.ByStatus[r.Bucket()] += n
		if n > 0 && r != engine.ReasonNone {
			s.ByReason[r.String()] = n
		}
	}
}

// describe adds the rows that wait at the scheduler and at probers, the rate, and the ETA. That is 0 (unknown) while the ETA of a
// class is unknown, or while the job is stalled though rows need no budget. A class that waits for no budget uses its own rate, or
// the job's until it has one.
func (d *scheduler) describe(job *runningJob, s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slow := waitTotals{now: now, byClass: map[string]*WaitingClass{}}
	for _, q := range job.queues {
		until, held := q.pausedUntil, q.held.Until
		if least := now.Add(time.Second); held.Before(least) {
			held = least // held rows wait for a budget, even if the reported time has passed
		}
		if q.held.Rows > 0 && q.held.Rows >= q.unanswered { // ready rows come after rows that all wait for a budget
			until = held
		}
		for i := range q.ready {
			slow.add(q.class, int64(q.ready[i].rows), until)
		}
		waiting := min(q.held.Rows, q.unanswered)
		if waiting > 0 {
			slow.add(q.class, int64(waiting), held)
		}
		if q.unanswered > 0 {
			slow.class(q.class).asked += int64(q.unanswered - waiting)
		}
	}
	var least time.Duration // the job cannot end before
	for i := range job.delayed {
		x := &job.delayed[i]
		least = max(least, x.at.Sub(now))
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.attempt > 0:
			s.PendingRetry += int64(x.chunk.rows)
		default:
			slow.add(x.chunk.class, int64(x.chunk.rows), x.at)
		}
	}
	if a, ok := job.c.cfg.Prober.(absentNodeWaiter); ok && slow.budget > 0 {
		least = max(least, a.Awaited().Sub(now))
	}
	if n := job.unresolvedRows.Load(); n > 0 {
		slow.byClass[classDNS] = &WaitingClass{Class: classDNS, Rows: n}
	}
	left := job.remaining()
	rate, average, stalled := job.progress.pace(left, now)
	end, known := max(least, average), left == 0 || average > 0
	for class, one := range slow.byClass {
		switch cr := job.rates[class]; {
		case class == classDNS:
		case cr != nil && cr.answered > 0:
			one.ETA = cr.eta(one.Rows+one.asked, one.Until, now, float64(job.c.budgets.refusalsPerHour(class))/plan.DefaultRefused)
		case one.budget == 0:
			one.ETA = average
		}
		known = known && one.ETA > 0 && (!stalled || one.Rows+one.asked == one.budget)
		end = max(end, one.ETA)
	}
	if known {
		s.ETA = end
	}
	s.Rate, s.WaitingBudget = rate, slow.budget
	for _, one := range slow.byClass {
		if one.Rows > 0 {
			s.Waiting = append(s.Waiting, *one)
		}
	}
	slices.SortFunc(s.Waiting, func(a, b WaitingClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	s.Waiting = s.Waiting[:min(len(s.Waiting), maxWaitingClasses)]
}

// absentNodeWaiter is a prober that knows until when rows may wait for an absent node. They are tried sooner, in case it is back.
type absentNodeWaiter interface {
	Awaited() time.Time
}

// waitTotals counts the waiting rows by class.
type waitTotals struct {
	now     time.Time
	byClass map[string]*WaitingClass
	budget  int64 // of these, rows that wait for a budget
}

// class returns the entry of a class, and adds it if it is new.
func (w *waitTotals) class(class string) *WaitingClass {
	one := w.byClass[class]
	if one == nil {
		one = &WaitingClass{Class: class}
		w.byClass[class] = one
	}
	return one
}

func (w *waitTotals) add(class string, rows int64, until time.Time) {
	one := w.class(class)
	one.Rows += rows
	if !until.After(w.now) {
		return
	}
	one.budget += rows
	w.budget += rows
	if one.Until.IsZero() || until.Before(one.Until) {
		one.Until = until
	}
}
