package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
	"probity/prober/wire"
)

// TestBacklogs: the backlog of each class while its chunks are sent, answered and returned, and when the scheduler is
// idle.
func TestBacklogs(t *testing.T) {
	d := eightSources(0)
	job := d.NewJob(JobConfig{})
	has := func(want map[string]Backlog, idle bool) {
		t.Helper()
		got, is := job.Backlogs()
		require.Equal(t, want, got)
		require.Equal(t, idle, is)
	}
	none := map[string]Backlog{}
	has(none, false)
	d.pick(time.Now())
	has(none, true)
	job.Add([]chunks.Chunk{{Class: "google", Rows: 1000}})
	job.Start(t.Context())
	has(map[string]Backlog{"google": BacklogReady}, true)
	next, _ := d.pick(time.Now())
	has(map[string]Backlog{"google": BacklogUnanswered}, false)
	next.rows = &chunks.Rows{}
	d.answered(next, 500, wire.BudgetWait{})
	has(map[string]Backlog{"google": BacklogUnanswered}, false)
	d.answered(next, 1, wire.BudgetWait{})
	has(none, false)
	next.unanswered = 499
	d.chunkReturned(next)
	require.Zero(t, d.inFlight.unanswered)
	require.Empty(t, job.queues)
	d.pick(time.Now())
	has(none, true)
}
