package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"probity/engine"
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
	ETA           time.Duration           // at this rate, and not before what waits is due, or may be asked by another; 0 when it cannot be told
	PendingRetry  int64                   // rows that were put off by their servers and wait for their next attempt
	WaitingBudget int64                   // rows that nobody may ask before a budget allows it
	Waiting       []Slow                  // the classes with the most rows ready and not under way, or waiting for budget
}

// Slow is a class whose rows wait.
type Slow struct {
	Class string
	Rows  int64
	Until time.Time     // zero: no pause was asked for
	ETA   time.Duration // at the pace of the class so far; 0 when it cannot be told
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
		s.Processed = s.Answered + s.Blank
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
	s.Processed = s.Answered + l.job.Blank
	if s.Answered == l.job.Unique {
		s.Processed = l.job.Rows
	}
	s.Rate = l.progress.rate(now)
	if s.Rate > 0 {
		s.ETA = time.Duration(float64(l.job.Unique-s.Answered) / s.Rate * float64(time.Second))
	}
	l.c.desk.describe(l, s, now)
}

// describe adds what waits at the desk.
func (d *desk) describe(l *live, s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slow := waits{now: now, of: map[string]*Slow{}}
	for _, q := range l.queues {
		for i := range q.ready {
			slow.add(q.class, q.ready[i].Rows, q.until)
		}
	}
	for i := range l.dues {
		x := &l.dues[i]
		s.ETA = max(s.ETA, x.at.Sub(now)) // no end before that
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.Attempt > 0:
			s.PendingRetry += int64(x.chunk.Rows)
		default:
			slow.add(x.chunk.Class, x.chunk.Rows, x.at)
		}
	}
	for class, one := range slow.of {
		one.ETA = l.paces[class].eta(one.Rows, one.Until, now)
		s.ETA = max(s.ETA, one.ETA)
	}
	if a, ok := l.c.cfg.Prober.(awaiting); ok && slow.budget > 0 {
		s.ETA = max(s.ETA, a.Awaited().Sub(now))
	}
	if n := l.unseen.Load(); n > 0 {
		slow.of[classDNS] = &Slow{Class: classDNS, Rows: n}
	}
	s.WaitingBudget, s.Waiting = slow.budget, slow.longest()
}

// awaiting is a prober that knows until when rows may wait for somebody who is away. They are tried again sooner, lest he be back.
type awaiting interface {
	Awaited() time.Time
}

// waits are the rows that could be asked, by class.
type waits struct {
	now    time.Time
	of     map[string]*Slow
	budget int64 // of these, before their budget allows it
}

func (w *waits) add(class string, rows uint32, until time.Time) {
	one := w.of[class]
	if one == nil {
		one = &Slow{Class: class}
		w.of[class] = one
	}
	one.Rows += int64(rows)
	if !until.After(w.now) {
		return
	}
	w.budget += int64(rows)
	if one.Until.IsZero() || until.Before(one.Until) {
		one.Until = until
	}
}

// longest are the classes with the most rows.
func (w *waits) longest() (list []Slow) {
	for _, one := range w.of {
		list = append(list, *one)
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
	var t standing
	answered := newBitset(j.Rows)
	disk := r.c.cfg.FS
	f, err := disk.Open(disk.PathJoin(r.c.dir(j.ID), fileLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever asked
	}
	if err != nil {
		return err
	}
	_, _, err = readLog(f, func(entries []byte) error {
		for ; len(entries) > 0; entries = entries[entryBytes:] {
			row, reason := entryRow(entries), entryReason(entries)
			if int64(row) >= j.Rows || int(reason) >= reasons {
				return fmt.Errorf("log: row %d of %d, reason %d: %w", row, j.Rows, reason, errDamaged)
			}
			if entryTag(entries) == tagFinal && answered.add(row) {
				t[reason]++
			}
		}
		return nil
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.seen = t
	return nil
}
