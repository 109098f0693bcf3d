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

// eight is a prober of eight identities that is never asked.
type eight struct{ wire.Prober }

func (eight) Sources() int { return 8 }

// TestLongestGoesFirst puts chunks of several classes on the desk: the class goes first whose budgets take longest for its rows,
// and of none more goes than its budgets take soon, whatever the others have.
func TestLongestGoesFirst(t *testing.T) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable()})
	l := &live{c: c, queues: map[string]*queue{}, paces: map[string]*classPace{}}
	require.Equal(t, wire.MaxRows, c.chunkRows("google"))
	require.Equal(t, wire.MaxRows, c.chunkRows(classTail))
	require.Equal(t, leastRows, c.chunkRows("mx.slow.example"))
	var chunks []chunk
	put := func(class string, n int) {
		for range n {
			chunks = append(chunks, chunk{class: class, rows: uint32(c.chunkRows(class))})
		}
	}
	put(classTail, 3)           // any rate
	put("google", 5)            // 20,480 rows at 2,400 a minute
	put("mx.slow.example", 300) // 76,800 rows at 40
	put("orange", 10)           // 2,560 at 30
	c.desk.add(l, chunks)
	c.desk.enter(l)
	var order []string
	for {
		next, _ := c.desk.pick(time.Now())
		if next.l == nil {
			break
		}
		order = append(order, next.q.class)
	}
	require.Equal(t, []string{"mx.slow.example", "orange", "google", "tail", "google"}, order[:5])
	went := map[string]int{}
	for _, class := range order {
		went[class]++
	}
	require.Equal(t, map[string]int{"mx.slow.example": 1, "orange": 1, "google": 2, "tail": 2}, went)
}

// TestTailGoesOnBesideSpentBudgets: so many rows of the tail wait at a prober, not counting those that no budget lets it ask; there
// are as many budgets as routes.
func TestTailGoesOnBesideSpentBudgets(t *testing.T) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable()})
	l := &live{c: c, queues: map[string]*queue{}, paces: map[string]*classPace{}}
	c.desk.add(l, slices.Repeat([]chunk{{class: classTail, rows: wire.MaxRows}}, 5))
	c.desk.enter(l)
	pick := func() (all []picked) {
		for next, _ := c.desk.pick(time.Now()); next.l != nil; next, _ = c.desk.pick(time.Now()) {
			all = append(all, next)
		}
		return all
	}
	first := pick()
	require.Len(t, first, inHand)
	f := &flight{l: l, q: first[0].q, chunk: first[0].c, span: first[0].span}
	c.desk.hold(f, wire.Held{Rows: wire.MaxRows / 2})
	require.Len(t, pick(), 1)
	require.Empty(t, pick())
	c.desk.hold(f, wire.Held{})
	require.Empty(t, pick(), "they are asked now")
	c.desk.answered(f, wire.MaxRows)
	require.Empty(t, pick(), "two chunks are there still")
	c.desk.answered(&flight{l: l, q: first[1].q, chunk: first[1].c, span: first[1].span}, 1)
	require.Len(t, pick(), 1)
}

// TestLongBacklogIsSteady says of which classes the rows keep their budgets busy for a day, those of all jobs counted and of a
// job that is still being split all that are to come.
func TestLongBacklogIsSteady(t *testing.T) {
	c := New(Config{Prober: eight{}, Table: engine.DefaultTable()})
	job := func(unique int64, split bool, rows map[string]int) *live {
		l := &live{c: c, job: &store.Job{Unique: unique}, queues: map[string]*queue{}}
		l.split.Store(split)
		for class, n := range rows {
			l.queues[class] = &queue{class: class, rows: n / 2, asked: n - n/2}
		}
		return l
	}
	const outlook, narrow = 24 * 10 * 20 * 8, 24 * 10 * 20 // rows of a day
	tests := []struct {
		name  string
		jobs  []*live
		class string
		want  bool
	}{
		{"a day", []*live{job(outlook, true, map[string]int{"outlook": outlook})}, "outlook", true},
		{"less", []*live{job(outlook, true, map[string]int{"outlook": outlook - 1})}, "outlook", false},
		{"of two jobs", []*live{job(9, true, map[string]int{"outlook": outlook / 2}), job(9, true, map[string]int{"outlook": outlook / 2})}, "outlook", true},
		{"a narrow route has one source", []*live{job(narrow, true, map[string]int{"mx.slow.example": narrow})}, "mx.slow.example", true},
		{"many routes", []*live{job(1e9, true, map[string]int{classTail: 1e9})}, classTail, false},
		{"a tenth is split", []*live{job(10*outlook, false, map[string]int{"outlook": outlook / 10, classTail: outlook - outlook/10})}, "outlook", true},
		{"a tenth is split, of less", []*live{job(9*outlook, false, map[string]int{"outlook": outlook / 10, classTail: outlook - outlook/10})}, "outlook", false},
		{"many routes beside a day", []*live{job(outlook, true, map[string]int{"outlook": outlook, classTail: 1e9})}, classTail, true},
		{"few rows beside a day", []*live{job(outlook, true, map[string]int{"outlook": outlook, "mx.slow.example": 20 * 23})}, "mx.slow.example", true},
		{"more rows beside a day", []*live{job(outlook, true, map[string]int{"outlook": outlook, "mx.slow.example": 20 * 24})}, "mx.slow.example", false},
		{"no row", []*live{job(outlook, true, map[string]int{"outlook": outlook})}, "google", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.desk.lives = test.jobs
			require.Equal(t, test.want, c.desk.steady(test.jobs[0], test.class))
		})
	}
}
