package dispatch

import (
	"cmp"
	"slices"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/prober/wire"
)

// WaitKind is what rows wait for.
type WaitKind uint8

// The kinds.
const (
	WaitTurn   WaitKind = iota // for chunks before theirs
	WaitAnswer                 // nothing: they are being asked
	WaitBudget                 // for a budget, or for a source that may ask
	WaitRetry                  // until they are tried again after a deferral
)

// Wait is rows of one route that wait for one thing. Class is that of their chunk.
type Wait struct {
	Class, Source string        // the source that must ask; empty: any
	Route         *engine.Route // nil: not read
	Kind          WaitKind
	Rows          int64
	Due           plan.Load // what they need of budgets
	ForBudget     int64     // with WaitAnswer: of these, rows that wait at the prober for a budget
	At            time.Time // end of the wait, for a budget or a retry; with WaitAnswer that of these
	AtProber      bool
}

// chunkWait is a chunk of a job, and what it waits for.
type chunkWait struct {
	Wait
	chunk chunks.Chunk
}

// Waits returns what each row of the job that is at the scheduler or at probers waits for. refused is the share of
// addresses that are taken to be refused. About so many rows are read to tell their routes and domains apart, those of
// the tail first; beyond them, rows of the tail have no route.
func (job *Job) Waits(now time.Time, refused float64, most int) (waits []Wait, err error) {
	all := job.chunkWaits(now)
	slices.SortStableFunc(all, func(a, b chunkWait) int {
		return cmp.Compare(tailFirst(a.Class), tailFirst(b.Class))
	})
	table, read := job.scheduler.cfg.Table(), 0
	for _, w := range all {
		if read >= most {
			w.Due = plan.Expect(int(w.Rows), refused)
			waits = append(waits, w.Wait)
			continue
		}
		rows, err := job.cfg.File.Read(w.chunk, table, job.cfg.Progress.Answered.Has)
		if err != nil {
			return nil, err
		}
		read += rows.Len()
		waits = append(waits, job.byRoute(w.Wait, rows.Batch, refused)...)
	}
	return waits, nil
}

func tailFirst(class string) int {
	if class == chunks.ClassTail {
		return 0
	}
	return 1
}

// byRoute divides what the rows of a chunk wait for by their routes. The chunk may have open rows that are not read, as
// they were answered meanwhile, and read ones that are no longer open: the count of the rows of a chunk of one route is
// the scheduler's.
func (job *Job) byRoute(w Wait, rows []wire.Row, refused float64) []Wait {
	type domain struct{ route, name string }
	addresses := map[domain]int{}
	routes := map[string]*engine.Route{}
	for i := range rows {
		addresses[domain{rows[i].Route.Key, rows[i].Address.Domain()}]++
		routes[rows[i].Route.Key] = rows[i].Route
	}
	divided := map[string]*Wait{}
	for d, n := range addresses {
		one := divided[d.route]
		if one == nil {
			one = new(w)
			one.Route, one.Rows, one.Due = routes[d.route], 0, plan.Load{}
			divided[d.route] = one
		}
		due := plan.Expect(n, refused)
		if job.decoys.has(d.name) {
			due = plan.Load{Recipients: float64(n), Refused: float64(n) * refused}
		}
		one.Rows += int64(n)
		one.Due.Recipients += due.Recipients
		one.Due.Refused += due.Refused
	}
	waits := make([]Wait, 0, len(divided))
	for _, one := range divided {
		if len(divided) == 1 {
			one.Rows = min(one.Rows, w.Rows)
		} else if w.ForBudget < w.Rows {
			one.ForBudget = 0 // which of them wait for a budget is not told
		} else {
			one.ForBudget = one.Rows
		}
		waits = append(waits, *one)
	}
	return waits
}

// chunkWaits returns the chunks of the job.
func (job *Job) chunkWaits(now time.Time) (waits []chunkWait) {
	d := job.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	add := func(c chunks.Chunk, rows int, kind WaitKind, at time.Time) *chunkWait {
		w := Wait{Class: c.Class, Source: c.Source, Kind: kind, Rows: int64(rows), At: at}
		waits = append(waits, chunkWait{w, c})
		return &waits[len(waits)-1]
	}
	for _, q := range job.queues {
		kind, at := WaitTurn, time.Time{}
		if q.pausedUntil.After(now) {
			kind, at = WaitBudget, q.pausedUntil
		} else if q.budgetWait.Rows > 0 && q.budgetWait.Rows >= q.unanswered && q.class != chunks.ClassTail {
			// They come after rows that all wait for a budget.
			kind, at = WaitBudget, q.budgetWait.Until
		}
		for _, c := range q.ready {
			add(c, int(c.Rows), kind, at)
		}
	}
	for i := range job.delayed {
		x := &job.delayed[i]
		switch {
		case x.queue != nil: // its rows were counted above
		case x.chunk.Attempt > 0:
			add(x.chunk, int(x.chunk.Rows), WaitRetry, x.at)
		default:
			add(x.chunk, int(x.chunk.Rows), WaitBudget, x.at)
		}
	}
	for dc := range job.sent {
		if dc.open > 0 {
			w := add(dc.chunk, dc.open, WaitAnswer, dc.budgetWait.Until)
			w.ForBudget, w.AtProber = int64(min(dc.budgetWait.Rows, dc.open)), true
		}
	}
	return waits
}
