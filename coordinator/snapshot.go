package coordinator

import (
	"cmp"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire"
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
	if problem := c.problemOf(id); problem != "" {
		j.Error = problem
	}
	s := Snapshot{Job: *j, ByStatus: map[engine.Status]int64{}, ByReason: map[string]int64{}}
	if job := c.runningJobOf(id); job != nil {
		job.describe(&s, time.Now())
		return s, nil
	}
	c.describeIdle(&s)
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

// describeIdle fills in the last known counts of a job that is not running now: it is paused, or its result is being
// written.
func (c *Coordinator) describeIdle(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runners[s.ID]
	if r == nil {
		return
	}
	s.setCounts(&r.lastCounts)
	if s.Answered > 0 {
		s.Processed = s.Answered + r.lastDuplicates + s.Blank
	}
	if s.State == store.JobFinalizing && !s.Cancelled {
		s.Processed = s.Rows
	}
}

// setCounts fills in the answer counts.
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

func (job *runningJob) describe(s *Snapshot, now time.Time) {
	t := job.progress.answerCounts()
	s.setCounts(&t)
	s.Processed = s.Answered + job.doneDuplicates(now, recountEvery) + job.record.Blank
	if s.Answered == job.record.Unique {
		s.Processed = job.record.Rows
	}
	s.Rate = job.progress.rate(now)
	job.c.scheduler.describe(job, s, now)
}

// describe adds the rows that wait at the scheduler and at probers, and the ETA.
func (d *scheduler) describe(job *runningJob, s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slow := waitTotals{now: now, byClass: map[string]*WaitingClass{}}
	for _, q := range job.queues {
		until := q.pausedUntil
		if q.held.Rows > 0 && q.held.Rows >= q.unanswered { // ready rows come after rows that all wait for a budget
			until = laterOf(q.held.Until, now.Add(time.Second))
		}
		for i := range q.ready {
			slow.add(q.class, q.ready[i].rows, until)
		}
		slow.addAsked(q.class, q.unanswered, q.held)
	}
	for i := range job.delayed {
		x := &job.delayed[i]
		s.ETA = max(s.ETA, x.at.Sub(now)) // the job cannot end before
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.attempt > 0:
			s.PendingRetry += int64(x.chunk.rows)
		default:
			slow.add(x.chunk.class, x.chunk.rows, x.at)
		}
	}
	if a, ok := job.c.cfg.Prober.(absentNodeWaiter); ok && slow.budget > 0 {
		s.ETA = max(s.ETA, a.Awaited().Sub(now))
	}
	if n := job.unresolvedRows.Load(); n > 0 {
		slow.byClass[classDNS] = &WaitingClass{Class: classDNS, Rows: n}
	}
	s.ETA = job.eta(s.ETA, slow.byClass, now)
	s.WaitingBudget, s.Waiting = slow.budget, slow.longest()
}

// eta estimates when the job ends, not before least. It is 0 (unknown) while the ETA of a class is unknown, or while the job is
// stalled though rows need no budget.
// A class that waits for no budget uses its own rate, or the job's until it has one. The scheduler is locked.
func (job *runningJob) eta(least time.Duration, classes map[string]*WaitingClass, now time.Time) time.Duration {
	left := job.remaining()
	average := job.progress.eta(left, now)
	end, known, stalled := max(least, average), left == 0 || average > 0, job.progress.stalled(now)
	for class, one := range classes {
		switch cr := job.rates[class]; {
		case class == classDNS:
		case cr != nil && cr.answered > 0:
			one.ETA = cr.eta(one.Rows+one.asked, one.Until, now, job.c.expectedRate(class))
		case one.budget == 0:
			one.ETA = average
		}
		known = known && one.ETA > 0 && (!stalled || one.Rows+one.asked == one.budget)
		end = max(end, one.ETA)
	}
	if !known {
		return 0
	}
	return end
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

// addAsked adds rows that probers have. Held rows wait for a budget, even if the reported time has passed.
func (w *waitTotals) addAsked(class string, asked int, held wire.Held) {
	if asked == 0 {
		return
	}
	n := min(held.Rows, asked)
	if n > 0 {
		w.add(class, uint32(n), laterOf(held.Until, w.now.Add(time.Second)))
	}
	w.class(class).asked += int64(asked - n)
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *waitTotals) add(class string, rows uint32, until time.Time) {
	one := w.class(class)
	one.Rows += int64(rows)
	if !until.After(w.now) {
		return
	}
	one.budget += int64(rows)
	w.budget += int64(rows)
	if one.Until.IsZero() || until.Before(one.Until) {
		one.Until = until
	}
}

// longest returns the classes with the most rows.
func (w *waitTotals) longest() (list []WaitingClass) {
	for _, one := range w.byClass {
		if one.Rows > 0 {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b WaitingClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	return list[:min(len(list), maxWaitingClasses)]
}

// countLogged counts the answers in a job's log, once for each runner before its first step: after a start of the process the log
// is all that is known of a job that is paused or waits for its turn.
func (r *jobRunner) countLogged(j *store.Job) error {
	if r.recounted {
		return nil
	}
	r.recounted = true
	answered, t, err := r.c.files.AnsweredRows(j)
	if err != nil {
		return err
	}
	duplicates, err := r.c.countDuplicates(j, answered)
	if err != nil {
		r.c.logUncounted(r.id, err)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.lastCounts, r.lastDuplicates = t, duplicates
	r.durable.rows = r.lastCounts.answered()
	return nil
}
