package progress

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/coordinator/dispatch"
	"probity/internal/console"
	"probity/store"
)

// TestPipeGetsALineEachInterval: whole lines, the first when the interval has passed, with the three classes that wait
// most.
func TestPipeGetsALineEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := New(&console.IO{Err: &out})
		s := coordinator.Snapshot{Job: store.Job{State: store.JobRunning, Rows: 10}, Processed: 4,
			Forecast: dispatch.Forecast{Rate: 2, PendingRetry: 1, WaitingBudget: 2}}
		for _, class := range []string{"a", "b", "c", "d"} {
			s.Waiting = append(s.Waiting, dispatch.WaitingClass{Class: class, Rows: 1})
		}
		d.Show(s)
		require.Empty(t, out.String())
		for range 3 {
			time.Sleep(lineInterval)
			d.Show(s)
			d.Show(s)
		}
		d.End()
		const line = "running: 4 of 10 rows, 2/s, 3 waiting for a retry or for budget; a: 1; b: 1; c: 1\n"
		require.Equal(t, line+line+line, out.String())
	})
}

func TestSummaryHasTheLargestCountsFirst(t *testing.T) {
	var out bytes.Buffer
	job := store.Job{Rows: 6, Unique: 3, Duplicates: 1, Blank: 2,
		Counts:  map[string]int64{"VALID": 1, "INVALID": 3, "RISKY": 0},
		Reasons: map[string]int64{"": 1, "no_mailbox": 3}}
	require.NoError(t, PrintSummary(&console.IO{Err: &out}, &job, "r.csv"))
	require.Equal(t, `rows                6
distinct addresses  3
duplicate rows      1
blank rows          2

status   rows  share
INVALID  3     75.0 %
VALID    1     25.0 %

reason      rows  share
no_mailbox  3     75.0 %

result: r.csv
`, out.String())
}
