package coordinator

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/internal/wholefile"
	"probity/prober/wire"
	"probity/store"
)

// holdBusyRows never answers rows of busy domains: rows of greylisting domains are deferred, the others have no budget.
func holdBusyRows(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
	switch {
	case strings.HasPrefix(r.Address.Domain(), "grey"):
		return wire.Deferred, time.Hour
	case strings.HasPrefix(r.Address.Domain(), "busy"):
		return wire.Returned, 20 * time.Minute
	}
	return wire.Settled, 0
}

func TestMaxHoursEndsUnansweredRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.prober.outcome = holdBusyRows
		w.run()
		j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader("email\na@busy.example\nb@grey.example\nc@x.example\n"), Options: ingest.Options{MaxHours: 2}})
		require.NoError(t, err)
		began := time.Now()
		j, err = w.c.Wait(t.Context(), j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobCompleted, j.State)
		require.InDelta(t, 2*time.Hour, time.Since(began), float64(time.Second))
		require.EqualValues(t, 1, j.Reasons["timeout"])
		require.EqualValues(t, 1, j.Reasons["greylisted"], "what is known of a row is said")
		require.Less(t, w.prober.asked, 20, "rows are not asked before they are due")
		require.NoError(t, w.close(t))
	})
}

// TestPausedJobIsCancelledAfterAWeek, or once the clock is trusted again: an hour after the start.
func TestPausedJobIsCancelledAfterAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const distrust = time.Hour
		fs := vfs.NewMem()
		w := newTestEnv(t, fs)
		j := w.accept(t, "email\na@busy.example\nc@x.example\n")
		_, err := w.store.UpdateJob(j.ID, func(j *store.Job) error {
			j.State, j.PausedAt = store.JobPaused, time.Now().Add(distrust+30*time.Second-maxPaused)
			return nil
		})
		require.NoError(t, err)
		w.run()
		began := time.Now()
		j, err = w.c.WaitChange(t.Context(), j.ID, store.JobPaused)
		require.NoError(t, err)
		j = w.finish(t, j.ID)
		require.Equal(t, store.JobCancelled, j.State)
		require.InDelta(t, distrust+30*time.Second, time.Since(began), float64(time.Second))
		require.EqualValues(t, 2, j.Reasons["cancelled"], "nothing had been asked")
		_, err = w.store.UpdateJob(j.ID, func(j *store.Job) error {
			j.FinishedAt = time.Now().Add(10*time.Minute - DefaultRetention)
			return nil
		})
		require.NoError(t, err)
		j, err = w.c.WaitChange(t.Context(), j.ID, store.JobCancelled)
		require.NoError(t, err)
		require.Equal(t, store.JobExpired, j.State)
		synctest.Wait()
		left, err := fs.List("data/jobs")
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, w.close(t))
	})
}

// longJobRows returns how many rows the long job has: enough for it to be under way when the short one ends, or
// PROBITY_LONG_JOB_ROWS.
func longJobRows(t *testing.T) int {
	text := os.Getenv("PROBITY_LONG_JOB_ROWS")
	if text == "" {
		return 60_000
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err)
	return rows
}

func TestLongJobDoesNotDelayAShortOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
			if r.Number%8 == 0 {
				time.Sleep(time.Millisecond)
			}
			return wire.Settled, 0
		}
		w.run()
		long := w.accept(t, testCSV(longJobRows(t), 5))
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		w.finish(t, w.accept(t, testCSV(1000, 6)).ID)
		require.Less(t, time.Since(began), 2*time.Second)
		j, err := w.c.Job(long.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, j.State, "the long job has not finished meanwhile")
		w.finish(t, long.ID)
		require.NoError(t, w.close(t))
	})
}

func TestFullDiskWaitsAndDamagedFileFails(t *testing.T) {
	disk := vfs.NewMem()
	fs := &faultFS{FS: disk, err: syscallNoSpace}
	w := newTestEnv(t, disk, func(_ *testEnv, c *Config) { c.FS = fs })
	j := w.accept(t, testCSV(500, 8))
	fs.countdown.Store(6)
	w.run()
	require.Equal(t, store.JobCompleted, w.finish(t, j.ID).State)
	require.Equal(t, int64(1), w.c.metrics.stepFailures[failureDiskFull].Load())

	w.prober.outcome = holdBusyRows
	j = w.accept(t, "email\na@x.example\nb@busy.example\n")
	require.Eventually(t, func() bool {
		s, err := w.c.Snapshot(j.ID)
		return err == nil && s.WaitingBudget > 0
	}, 5*time.Second, time.Millisecond)
	_, err := w.c.Pause(j.ID)
	require.NoError(t, err)
	require.NoError(t, wholefile.Write(disk, w.uploadOf(t, j.ID), []byte("junk")))
	_, err = w.c.Resume(j.ID)
	require.NoError(t, err)
	j = w.finish(t, j.ID)
	require.Equal(t, store.JobFailed, j.State)
	require.Contains(t, j.Error, "damaged")
	require.NoError(t, w.close(t), "other jobs go on")
}

func TestJobsWaitingForDNSDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		var jobs []*store.Job
		for i := range 16 {
			jobs = append(jobs, w.accept(t, fmt.Sprintf("email\na@x.example\nb@slow%d.example\n", i)))
		}
		began := time.Now()
		w.run()
		for _, j := range jobs {
			require.Equal(t, store.JobCompleted, w.finish(t, j.ID).State)
		}
		require.Less(t, time.Since(began), 2*time.Second, "one slow look-up's time, not one after another")
		require.NoError(t, w.close(t))
	})
}
