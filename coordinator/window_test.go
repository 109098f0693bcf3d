package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// eightSources is a prober with eight egress sources that gets no rows.
type eightSources struct{ wire.Prober }

func (eightSources) Sources() int { return 8 }

// TestLongestClassGoesFirst adds chunks of several classes to the scheduler: the class that its budgets make slowest goes first, and
// no class has more rows in flight than its budgets allow soon.
func TestLongestClassGoesFirst(t *testing.T) {
	c := New(Config{Prober: eightSources{}, Table: engine.DefaultTable()})
	job := &runningJob{c: c, queues: map[string]*classQueue{}, rates: map[string]*classRate{}}
	require.Equal(t, wire.MaxRows, c.budgets.chunkRows("google"))
	require.Equal(t, wire.MaxRows, c.budgets.chunkRows(classTail))
	require.Equal(t, minChunkRows, c.budgets.chunkRows("mx.slow.example"))
	var chunks []chunk
	put := func(class string, n int) {
		for range n {
			chunks = append(chunks, chunk{class: class, rows: uint32(c.budgets.chunkRows(class))})
		}
	}
	put(classTail, 3)           // any rate
	put("google", 5)            // 20,480 rows at 2,400 a minute
	put("mx.slow.example", 300) // 76,800 rows at 40
	put("orange", 10)           // 2,560 at 30
	c.scheduler.add(job, chunks)
	c.scheduler.addJob(job)
	var order []string
	for {
		next, _ := c.scheduler.pick(time.Now())
		if next == nil {
			break
		}
		order = append(order, next.queue.class)
	}
	require.Equal(t, []string{"mx.slow.example", "orange", "google", "tail", "google"}, order[:5])
	went := map[string]int{}
	for _, class := range order {
		went[class]++
	}
	require.Equal(t, map[string]int{"mx.slow.example": 1, "orange": 1, "google": 2, "tail": 2}, went)
}

// TestTailContinuesWhileBudgetsAreUsedUp: tail rows that wait for a budget at the prober do not count against the tail's window: each
// route has its own budget.
func TestTailContinuesWhileBudgetsAreUsedUp(t *testing.T) {
	c := New(Config{Prober: eightSources{}, Table: engine.DefaultTable()})
	job := &runningJob{c: c, queues: map[string]*classQueue{}, rates: map[string]*classRate{}}
	c.scheduler.add(job, slices.Repeat([]chunk{{class: classTail, rows: wire.MaxRows}}, 5))
	c.scheduler.addJob(job)
	pick := func() (all []*dispatchedChunk) {
		for next, _ := c.scheduler.pick(time.Now()); next != nil; next, _ = c.scheduler.pick(time.Now()) {
			all = append(all, next)
		}
		return all
	}
	first := pick()
	require.Len(t, first, windowsInFlight)
	c.scheduler.answered(first[0], 0, wire.Held{Rows: wire.MaxRows / 2})
	require.Len(t, pick(), 1)
	require.Empty(t, pick())
	c.scheduler.answered(first[0], 0, wire.Held{})
	require.Empty(t, pick(), "they are asked now")
	c.scheduler.answered(first[0], wire.MaxRows, wire.Held{})
	require.Empty(t, pick(), "two chunks are there still")
	c.scheduler.answered(first[1], 1, wire.Held{})
	require.Len(t, pick(), 1)
}

// TestLongBacklog: which classes keep their budgets busy for a day, counting the rows of all jobs, and for a job that is still being
// split also the rows to come.
func TestLongBacklog(t *testing.T) {
	c := New(Config{Prober: eightSources{}, Table: engine.DefaultTable()})
	job := func(unique int64, split bool, rows map[string]int) *runningJob {
		job := &runningJob{c: c, record: &store.Job{Unique: unique}, queues: map[string]*classQueue{}}
		job.splitDone.Store(split)
		for class, n := range rows {
			job.queues[class] = &classQueue{class: class, rows: n / 2, unanswered: n - n/2}
		}
		return job
	}
	const outlook, narrow = 24 * 10 * 20 * 8, 24 * 10 * 20 // rows of a day
	tests := []struct {
		name  string
		jobs  []*runningJob
		class string
		want  bool
	}{
		{"a day", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook})}, "outlook", true},
		{"less", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook - 1})}, "outlook", false},
		{"of two jobs", []*runningJob{job(9, true, map[string]int{"outlook": outlook / 2}), job(9, true, map[string]int{"outlook": outlook / 2})}, "outlook", true},
		{"a narrow route has one source", []*runningJob{job(narrow, true, map[string]int{"mx.slow.example": narrow})}, "mx.slow.example", true},
		{"many routes", []*runningJob{job(1e9, true, map[string]int{classTail: 1e9})}, classTail, false},
		{"a tenth is split", []*runningJob{job(10*outlook, false, map[string]int{"outlook": outlook / 10, classTail: outlook - outlook/10})}, "outlook", true},
		{"a tenth is split, of less", []*runningJob{job(9*outlook, false, map[string]int{"outlook": outlook / 10, classTail: outlook - outlook/10})}, "outlook", false},
		{"many routes next to one of a day", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook, classTail: 1e9})}, classTail, true},
		{"few rows beside a day", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook, "mx.slow.example": 20 * 23})}, "mx.slow.example", true},
		{"more rows beside a day", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook, "mx.slow.example": 20 * 24})}, "mx.slow.example", false},
		{"no row", []*runningJob{job(outlook, true, map[string]int{"outlook": outlook})}, "google", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.scheduler.jobs = test.jobs
			_, longBacklog := c.scheduler.compare(test.jobs[0], test.class)
			require.Equal(t, test.want, longBacklog)
		})
	}
}
