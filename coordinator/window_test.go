package coordinator

import (
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
	var chunks []store.Chunk
	put := func(class string, n int) {
		for range n {
			chunks = append(chunks, store.Chunk{Class: class, Rows: uint32(c.chunkRows(class))})
		}
	}
	put(classTail, 3)           // any rate
	put("google", 5)            // 20,480 rows at 2,400 a minute
	put("mx.slow.example", 300) // 76,800 rows at 40
	put("godaddy", 10)          // 2,560 at 30
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
	require.Equal(t, []string{"mx.slow.example", "godaddy", "google", "tail", "google"}, order[:5])
	went := map[string]int{}
	for _, class := range order {
		went[class]++
	}
	require.Equal(t, map[string]int{"mx.slow.example": 1, "godaddy": 1, "google": 2, "tail": 3}, went)
}
