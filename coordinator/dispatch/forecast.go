package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// Forecast is what waits of a running job, and when it will end.
type Forecast struct {
	Rate float64 // recent addresses per second; of a finished job, rows per second over its whole time
	// the longest of its classes, and at least until all delayed rows are due; 0 if unknown
	ETA           time.Duration
	PendingRetry  int64          // deferred rows that wait for their next attempt
	WaitingBudget int64          // rows that wait for a budget
	Waiting       []WaitingClass // the classes with the most rows that are ready or wait for a budget
}

// WaitingClass is a class with waiting rows.
type WaitingClass struct {
	Class string
	Rows  int64
	Until time.Time     // end of the wait for a budget; zero: none
	ETA   time.Duration // by the windows of its budgets, or at the rate of the class so far; 0 if unknown

	asked  int64 // rows in flight that do not wait for a budget
	budget int64 // of Rows, those that wait for a budget
}

const maxWaitingClasses = 10

// classDNS is the class of rows that wait for DNS: their real class is not known yet.
const classDNS = "dns"

// FewOfAll is the part of the rows that are left, one in so many, below which a class does not make the ETA unknown.
const FewOfAll = 1000

// Forecast returns the rows that wait at the scheduler and at probers, the rate, and the ETA. That is 0 (unknown) while
// the ETA of a class is unknown that has a thousandth of the addresses that are left, or while the job is stalled
// though no rows wait for a budget. A class of which rows do, or did, is done at windowsEnd, if it is known: a past
// rate would not know that sources are gone. Another class uses its own rate, or the job's until it has one. No ETA is
// later than the deadline: then rows without an answer are given up. The zero time is none.
func (job *Job) Forecast(now, windowsEnd, deadline time.Time) (s Forecast) {
	d := job.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := waitTotals{now: now, byClass: map[string]*WaitingClass{}}
	for _, q := range job.queues {
		until, opens := q.pausedUntil, q.budgetWait.Until
		if least := now.Add(time.Second); opens.Before(least) {
			opens = least // they wait for a budget, even if the reported time has passed
		}
		if q.budgetWait.Rows > 0 && q.budgetWait.Rows >= q.unanswered {
			until = opens // ready rows come after rows that all wait for a budget
		}
		for i := range q.ready {
			waiting.add(q.class, int64(q.ready[i].Rows), until)
		}
		forBudget := min(q.budgetWait.Rows, q.unanswered)
		if forBudget > 0 {
			waiting.add(q.class, int64(forBudget), opens)
		}
		if q.unanswered > 0 {
			waiting.class(q.class).asked += int64(q.unanswered - forBudget)
		}
	}
	var least time.Duration // the job cannot end before
	for i := range job.delayed {
		x := &job.delayed[i]
		least = max(least, x.at.Sub(now))
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.Attempt > 0:
			s.PendingRetry += int64(x.chunk.Rows)
		default:
			waiting.add(x.chunk.Class, int64(x.chunk.Rows), x.at)
		}
	}
	if a, ok := d.cfg.Prober.(absentNodeWaiter); ok && waiting.budget > 0 {
		least = max(least, a.Awaited().Sub(now))
	}
	if n := job.cfg.Progress.Unresolved.Load(); n > 0 {
		waiting.byClass[classDNS] = &WaitingClass{Class: classDNS, Rows: n}
	}
	left := job.remaining()
	rate, etaAtAverage, stalled := job.cfg.Progress.SampleRate(left, now)
	end, known := least, true
	if waiting.budget == 0 {
		end = max(end, etaAtAverage)
		known = left == 0 || etaAtAverage > 0 && !stalled
	}
	for class, one := range waiting.byClass {
		switch cr := job.rates[class]; {
		case class == classDNS:
		case one.budget > 0 || cr != nil && cr.waited:
			one.ETA = max(0, windowsEnd.Sub(now))
		case cr != nil && cr.answered > 0:
			one.ETA = cr.eta(one.Rows+one.asked, now)
		default:
			one.ETA = etaAtAverage
		}
		few := (one.Rows+one.asked)*FewOfAll < left
		known = known && (few || one.ETA > 0)
		end = max(end, one.ETA, one.Until.Sub(now))
		one.ETA = notAfter(deadline, one.ETA, now)
	}
	end = notAfter(deadline, end, now)
	if known {
		s.ETA = end
	}
	s.Rate, s.WaitingBudget = rate, waiting.budget
	for _, one := range waiting.byClass {
		if one.Rows > 0 {
			s.Waiting = append(s.Waiting, *one)
		}
	}
	slices.SortFunc(s.Waiting, func(a, b WaitingClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	s.Waiting = s.Waiting[:min(len(s.Waiting), maxWaitingClasses)]
	return s
}

// notAfter is an ETA, or the time until the deadline if that is sooner.
func notAfter(deadline time.Time, eta time.Duration, now time.Time) time.Duration {
	if deadline.IsZero() {
		return eta
	}
	return min(eta, max(0, deadline.Sub(now)))
}

// absentNodeWaiter is a prober that knows until when rows may wait for an absent node. They are tried sooner, in case
// it is back.
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
