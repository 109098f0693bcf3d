package coordinator

import (
	"cmp"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// Snapshot is a job's record with what is known of it at this moment.
type Snapshot struct {
	store.Job
	Answered      int64                   // distinct addresses that have their verdict
	Processed     int64                   // rows that are done: never more than is certain
	ByStatus      map[engine.Status]int64 // distinct addresses while the job runs, rows once it is finished
	ByReason      map[string]int64        // the same
	Rate          float64                 // addresses per second, lately; of a finished job, rows per second over all its time
	ETA           time.Duration           // the longest of its classes, and not before what waits is due, or may be asked by another; 0 when it cannot be told
	PendingRetry  int64                   // rows that were put off by their servers and wait for their next attempt
	WaitingBudget int64                   // rows that no source may ask before a budget allows it
	Waiting       []Slow                  // the classes with the most rows ready and not under way, or waiting for budget
}

// Slow is a class whose rows wait.
type Slow struct {
	Class string
	Rows  int64
	Until time.Time     // zero: no pause was asked for
	ETA   time.Duration // at the pace of the class so far; 0 when it cannot be told

	asked  int64 // rows under way that no budget holds up
	budget int64 // of Rows, those that a budget does
}

const maxSlow = 10

// classDNS stands for the rows that wait for a resolver: what class they are of is not known yet.
const classDNS = "dns"

// Snapshot is the present state of a job.
func (c *Coordinator) Snapshot(id string) (Snapshot, error) {
	j, err := c.cfg.Store.Job(id)
	if err != nil {
		return Snapshot{}, err
	}
	if j.State.Finished() && j.Counts != nil {
		return FinishedSnapshot(j), nil
	}
	if trouble := c.troubleOf(id); trouble != "" {
		j.Error = trouble
	}
	s := Snapshot{Job: *j, ByStatus: map[engine.Status]int64{}, ByReason: map[string]int64{}}
	if l := c.liveOf(id); l != nil {
		l.describe(&s, time.Now())
		return s, nil
	}
	c.describeResting(&s)
	return s, nil
}

// FinishedSnapshot is all that is ever known of a finished job: its record says it.
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

// describeResting tells of a job that is not worked on at this moment what was known when it was: it pauses, or its
// result is being written.
func (c *Coordinator) describeResting(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runners[s.ID]
	if r == nil {
		return
	}
	s.tell(&r.seen)
	if s.Answered > 0 {
		s.Processed = s.Answered + r.seenDuplicates + s.Blank
	}
	if s.State == store.JobFinalizing && !s.Cancelled {
		s.Processed = s.Rows
	}
}

// tell fills in what was answered.
func (s *Snapshot) tell(t *standing) {
	s.Answered = t.answered()
	for i, n := range t {
		r := engine.Reason(i)
		s.ByStatus[r.Bucket()] += n
		if n > 0 && r != engine.ReasonNone {
			s.ByReason[r.String()] = n
		}
	}
}

func (l *live) describe(s *Snapshot, now time.Time) {
	t := l.progress.standing()
	s.tell(&t)
	s.Processed = s.Answered + l.duplicatesDone(now, recountEvery) + l.job.Blank
	if s.Answered == l.job.Unique {
		s.Processed = l.job.Rows
	}
	s.Rate = l.progress.rate(now)
	l.c.desk.describe(l, s, now)
}

// describe adds what waits at the desk and at probers, and when the job ends.
func (d *desk) describe(l *live, s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slow := waits{now: now, of: map[string]*Slow{}}
	for _, q := range l.queues {
		until := q.until
		if q.held.Rows > 0 && q.held.Rows >= q.asked { // what is ready stands behind rows that all wait for a budget
			until = later(q.held.Until, now.Add(time.Second))
		}
		for i := range q.ready {
			slow.add(q.class, q.ready[i].rows, until)
		}
		slow.addAsked(q.class, q.asked, q.held)
	}
	for i := range l.dues {
		x := &l.dues[i]
		s.ETA = max(s.ETA, x.at.Sub(now)) // no end before that
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.attempt > 0:
			s.PendingRetry += int64(x.chunk.rows)
		default:
			slow.add(x.chunk.class, x.chunk.rows, x.at)
		}
	}
	if a, ok := l.c.cfg.Prober.(awaiting); ok && slow.budget > 0 {
		s.ETA = max(s.ETA, a.Awaited().Sub(now))
	}
	if n := l.unseen.Load(); n > 0 {
		slow.of[classDNS] = &Slow{Class: classDNS, Rows: n}
	}
	s.ETA = l.end(s.ETA, slow.of, now)
	s.WaitingBudget, s.Waiting = slow.budget, slow.longest()
}

// end is when the job ends, not before least; 0 when that cannot be told: while it cannot be told of a class, or while nothing moves
// though rows may be asked.
// A class that no budget holds up is told by its own pace, or by the job's while it has none. The desk is locked.
func (l *live) end(least time.Duration, classes map[string]*Slow, now time.Time) time.Duration {
	left := l.left()
	average := l.progress.eta(left, now)
	end, known, stalled := max(least, average), left == 0 || average > 0, l.progress.stalled(now)
	for class, one := range classes {
		switch p := l.paces[class]; {
		case class == classDNS:
		case p != nil && p.answered > 0:
			one.ETA = p.eta(one.Rows+one.asked, one.Until, now, l.c.expectedPace(class))
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

// awaiting is a prober that knows until when rows may wait for a node that is away. They are tried sooner, in case it is back.
type awaiting interface {
	Awaited() time.Time
}

// waits are the rows that could be asked, by class.
type waits struct {
	now    time.Time
	of     map[string]*Slow
	budget int64 // of these, before their budget allows it
}

// class finds what waits of a class.
func (w *waits) class(class string) *Slow {
	one := w.of[class]
	if one == nil {
		one = &Slow{Class: class}
		w.of[class] = one
	}
	return one
}

// addAsked adds rows that probers have. Those that are held wait for a budget, though the time that was told may be over by now.
func (w *waits) addAsked(class string, asked int, held wire.Held) {
	if asked == 0 {
		return
	}
	n := min(held.Rows, asked)
	if n > 0 {
		w.add(class, uint32(n), later(held.Until, w.now.Add(time.Second)))
	}
	w.class(class).asked += int64(asked - n)
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *waits) add(class string, rows uint32, until time.Time) {
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

// longest are the classes with the most rows.
func (w *waits) longest() (list []Slow) {
	for _, one := range w.of {
		if one.Rows > 0 {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b Slow) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	return list[:min(len(list), maxSlow)]
}

// recall counts what a job's log says, once for each runner and before it does anything: a process that has just begun
// knows nothing of a job that pauses, or waits for its turn, but what is on the disk.
func (r *runner) recall(j *store.Job) error {
	if r.recalled {
		return nil
	}
	r.recalled = true
	answered, t, err := r.c.answeredRows(j)
	if err != nil {
		return err
	}
	duplicates, err := r.c.countDuplicates(j, answered)
	if err != nil {
		r.c.tellUncounted(r.id, err)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.seen, r.seenDuplicates = t, duplicates
	r.reached.rows = t.answered()
	return nil
}
