package dispatch

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
	"probity/coordinator/progress"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// eightSources makes a scheduler for a prober with eight egress sources that gets no rows.
func eightSources(recentMax int) *Scheduler {
	table := engine.DefaultTable()
	return New(Config{Table: func() *engine.Table { return table }, Sources: func() int { return 8 },
		MaxRecentRows: recentMax})
}

// start makes a job with so many addresses, and starts it.
func start(d *Scheduler, unique int64) *Job {
	job := d.NewJob(JobConfig{Record: &store.Job{Unique: unique}, Progress: progress.New(0, nil)})
	job.Start(context.Background())
	return job
}

// TestChunksGrowWithSources: each node gets a part of a chunk, and one of a few rows would cost as much as a larger
// one.
func TestChunksGrowWithSources(t *testing.T) {
	table := engine.DefaultTable()
	most := map[int]int{
		1: wire.MaxRows, 256: wire.MaxRows, 2000: 32_000, 4000: 64_000, 10_000: chunks.MaxRows,
	}
	for sources, want := range most {
		job := start(New(Config{Table: func() *engine.Table { return table }, Sources: func() int { return sources }}),
			0)
		require.Equal(t, want, job.ChunkRows(chunks.ClassTail), "%d sources", sources)
		require.LessOrEqual(t, job.ChunkRows("google"), want)
		require.Equal(t, minChunkRows, job.ChunkRows("mx.slow.example"), "a route has one source")
	}
}

// TestLongestClassGoesFirst adds chunks of several classes to the scheduler: the class that its budgets make slowest
// goes first, and no class has more rows in flight than its budgets allow soon.
func TestLongestClassGoesFirst(t *testing.T) {
	d := eightSources(0)
	job := start(d, 0)
	require.Equal(t, wire.MaxRows, job.ChunkRows("google"))
	require.Equal(t, wire.MaxRows, job.ChunkRows(chunks.ClassTail))
	require.Equal(t, minChunkRows, job.ChunkRows("mx.slow.example"))
	var made []chunks.Chunk
	put := func(class string, n int) {
		for range n {
			made = append(made, chunks.Chunk{Class: class, Rows: uint32(job.ChunkRows(class))})
		}
	}
	put(chunks.ClassTail, 3)    // any rate
	put("google", 5)            // 20,480 rows at 2,400 a minute
	put("mx.slow.example", 300) // 76,800 rows at 40
	put("orange", 10)           // 2,560 at 30
	job.Add(made)
	var order []string
	for {
		next, _ := d.pick(time.Now())
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

// TestTailContinuesWhileBudgetsAreUsedUp: tail rows that wait for a budget at the prober do not count against the
// tail's window: each route has its own budget.
func TestTailContinuesWhileBudgetsAreUsedUp(t *testing.T) {
	d := eightSources(0)
	job := start(d, 0)
	job.Add(slices.Repeat([]chunks.Chunk{{Class: chunks.ClassTail, Rows: wire.MaxRows}}, 5))
	pick := func() (all []*dispatchedChunk) {
		for next, _ := d.pick(time.Now()); next != nil; next, _ = d.pick(time.Now()) {
			all = append(all, next)
		}
		return all
	}
	first := pick()
	require.Len(t, first, windowsInFlight)
	d.answered(first[0], 0, wire.BudgetWait{Rows: wire.MaxRows / 2})
	require.Len(t, pick(), 1)
	require.Empty(t, pick())
	d.answered(first[0], 0, wire.BudgetWait{})
	require.Empty(t, pick(), "they are asked now")
	d.answered(first[0], wire.MaxRows, wire.BudgetWait{})
	require.Empty(t, pick(), "two chunks are there still")
	d.answered(first[1], 1, wire.BudgetWait{})
	require.Len(t, pick(), 1)
}

// TestLongBacklog: which classes keep their budgets busy for a day, counting the rows of all jobs, and for a job that
// is still being split also the rows to come.
func TestLongBacklog(t *testing.T) {
	d := eightSources(0)
	job := func(unique int64, split bool, rows map[string]int) *Job {
		job := start(d, unique)
		job.splitDone.Store(split)
		for class, n := range rows {
			job.queues[class] = &classQueue{class: class, rows: n / 2, unanswered: n - n/2}
		}
		return job
	}
	const outlook, narrow = 24 * 10 * 20 * 8, 24 * 10 * 20 // rows of a day
	tests := []struct {
		name  string
		jobs  []*Job
		class string
		want  bool
	}{
		{"a day", []*Job{job(outlook, true, map[string]int{"outlook": outlook})}, "outlook", true},
		{"less", []*Job{job(outlook, true, map[string]int{"outlook": outlook - 1})}, "outlook", false},
		{"of two jobs", []*Job{job(9, true, map[string]int{"outlook": outlook / 2}),
			job(9, true, map[string]int{"outlook": outlook / 2})}, "outlook", true},
		{"a narrow route has one source", []*Job{job(narrow, true, map[string]int{"mx.slow.example": narrow})},
			"mx.slow.example", true},
		{"many routes", []*Job{job(1e9, true, map[string]int{chunks.ClassTail: 1e9})}, chunks.ClassTail, false},
		{"a tenth is split", []*Job{job(10*outlook, false,
			map[string]int{"outlook": outlook / 10, chunks.ClassTail: outlook - outlook/10})}, "outlook", true},
		{"a tenth is split, of less", []*Job{job(9*outlook, false,
			map[string]int{"outlook": outlook / 10, chunks.ClassTail: outlook - outlook/10})}, "outlook", false},
		{"many routes next to one of a day", []*Job{job(outlook, true,
			map[string]int{"outlook": outlook, chunks.ClassTail: 1e9})}, chunks.ClassTail, true},
		{"few rows next to a day", []*Job{job(outlook, true,
			map[string]int{"outlook": outlook, "mx.slow.example": 20 * 23})}, "mx.slow.example", true},
		{"more rows next to a day", []*Job{job(outlook, true,
			map[string]int{"outlook": outlook, "mx.slow.example": 20 * 24})}, "mx.slow.example", false},
		{"no row", []*Job{job(outlook, true, map[string]int{"outlook": outlook})}, "google", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d.jobs = test.jobs
			_, longBacklog := d.compare(test.jobs[0], test.class)
			require.Equal(t, test.want, longBacklog)
		})
	}
}
