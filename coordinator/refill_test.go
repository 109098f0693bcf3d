package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/prober/wire"
)

// openChunkOf makes an open chunk with rows of so many hosts.
func openChunkOf(rows, hosts int) *openChunk {
	table := engine.DefaultTable()
	oc := &openChunk{since: time.Now()}
	rowRoutes := make([]chunks.Route, hosts)
	for i := range rowRoutes {
		rowRoutes[i].Route = table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example", i)}})
	}
	for i := range uint32(rows) {
		oc.Add(&chunks.Row{Number: i, Route: &rowRoutes[int(i)%hosts], Mailbox: "user"})
	}
	return oc
}

// TestIdleSchedulerIsRefilled: which rows are sent though their chunk is not full. Rows of few hosts once few of their class are in
// flight, rows of many hosts a second later, both later while the scheduler has work of other jobs, none while it has ready chunks.
func TestIdleSchedulerIsRefilled(t *testing.T) {
	few, many := openChunkOf(200, 2), openChunkOf(200, 100)
	tests := []struct {
		name string
		rows *openChunk
		has  backlogLevel
		idle bool          // the scheduler
		want time.Duration // never, for -1
	}{
		{"few hosts", few, backlogLow, true, 0},
		{"few hosts, others have work", few, backlogLow, false, bufferWait},
		{"few hosts, under way", few, backlogUnanswered, true, bufferWaitBusy},
		{"few hosts, waiting", few, backlogReady, true, -1},
		{"many hosts", many, backlogLow, true, bufferWait},
		{"many hosts, others have work", many, backlogLow, false, bufferWaitBusy},
		{"many hosts, under way", many, backlogUnanswered, true, bufferWaitBusy},
		{"many hosts, waiting", many, backlogReady, true, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want < 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(time.Hour)))
				return
			}
			require.True(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(test.want)))
			if test.want > 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(test.want-1)))
			}
		})
	}
}

// TestBacklogLevels: the level of each class while its chunks are sent, answered and returned, and when the scheduler is idle.
func TestBacklogLevels(t *testing.T) {
	c := New(Config{Prober: eightSources{}, Table: engine.DefaultTable()})
	job := &runningJob{c: c, queues: map[string]*classQueue{}, rates: map[string]*classRate{}}
	has := func(want map[string]backlogLevel, idle bool) {
		t.Helper()
		got, is := c.scheduler.backlogLevels(job)
		require.Equal(t, want, got)
		require.Equal(t, idle, is)
	}
	none := map[string]backlogLevel{}
	has(none, false)
	c.scheduler.pick(time.Now())
	has(none, true)
	c.scheduler.add(job, []chunk{{class: "google", rows: 1000}})
	c.scheduler.addJob(job)
	has(map[string]backlogLevel{"google": backlogReady}, true)
	next, _ := c.scheduler.pick(time.Now())
	has(map[string]backlogLevel{"google": backlogUnanswered}, false)
	next.rows = &chunks.Rows{}
	c.scheduler.answered(next, 500, wire.Held{})
	has(map[string]backlogLevel{"google": backlogUnanswered}, false)
	c.scheduler.answered(next, 1, wire.Held{})
	has(none, false)
	next.unanswered = 499
	c.scheduler.chunkReturned(next)
	require.Zero(t, c.scheduler.inFlight.unanswered)
	require.Empty(t, job.queues)
	c.scheduler.pick(time.Now())
	has(none, true)
}
