package coordinator

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

func TestMetricsHaveEveryStateAndStatus(t *testing.T) {
	fs := vfs.NewMem()
	s, err := store.Open(fs, "state")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.AcceptJob(&store.Job{ID: "0123456789abcdef0123456789abcdef", Account: "a",
		State: store.JobCompleted, Counts: map[string]int64{"VALID": 1}}))
	c := New(Config{Store: s, FS: fs, Dir: "data", Table: engine.DefaultTable()})
	c.metrics.singles[engine.Risky].Add(3)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP probity_singles_total Single verifications that were answered, by status.
# TYPE probity_singles_total counter
probity_singles_total{status="INVALID"} 0
probity_singles_total{status="RISKY"} 3
probity_singles_total{status="UNKNOWN"} 0
probity_singles_total{status="VALID"} 0
`), "probity_singles_total"))
	require.Equal(t, len(openStates), testutil.CollectAndCount(c, "probity_jobs"))
}

// TestFinishedJobsAreCounted: a scrape reports finished jobs from counters and does not read their records.
func TestFinishedJobsAreCounted(t *testing.T) {
	runWithBrokenDisk(t, nil, func(t *testing.T, w *testEnv, disk *brokenFS) {
		require.NoError(t, w.store.AcceptJob(&store.Job{ID: "fedcba9876543210fedcba9876543210", Account: "a",
			State: store.JobFailed}))
		w.run()
		w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		bad := w.accept(t, testCSV(50, 2))
		disk.err = jobfiles.ErrDamaged
		disk.breakPath(bad.ID)
		w.prober.outcome = holdBusyRows
		require.Equal(t, store.JobFailed, w.finish(t, bad.ID).State)
		disk.repair()
		w.accept(t, "email\nb@busy.example\n")
		synctest.Wait()
		require.NoError(t, testutil.CollectAndCompare(w.c, strings.NewReader(`
# HELP probity_jobs Jobs that are not finished, by state.
# TYPE probity_jobs gauge
probity_jobs{state="cancelling"} 0
probity_jobs{state="finalizing"} 0
probity_jobs{state="paused"} 0
probity_jobs{state="queued"} 0
probity_jobs{state="ready"} 0
probity_jobs{state="running"} 1
# HELP probity_jobs_finished_total Jobs that came to a state in which they do no more work, by state.
# TYPE probity_jobs_finished_total counter
probity_jobs_finished_total{state="cancelled"} 0
probity_jobs_finished_total{state="completed"} 1
probity_jobs_finished_total{state="expired"} 0
probity_jobs_finished_total{state="failed"} 1
`), "probity_jobs", "probity_jobs_finished_total"))
	})
}
