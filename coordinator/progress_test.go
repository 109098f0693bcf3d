package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store"
)

// Who waits for budget is counted as waiting: rows that came home, and those behind them of a class that pauses.
func TestProgressCountsAllThatWaitForBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, vfs.NewMem())
		w.prober.how = stubborn
		w.run()
		var list strings.Builder
		list.WriteString("email\n")
		for i := range 20_000 {
			fmt.Fprintf(&list, "a%d@busy.example\n", i)
		}
		j := w.accept(t, list.String())
		time.Sleep(10 * time.Minute)
		s, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.EqualValues(t, 20_000, s.WaitingBudget)
		require.Zero(t, s.PendingRetry)
		require.NotEmpty(t, s.Waiting)
		require.Greater(t, s.ETA, time.Duration(0), "no end before the budget allows one")
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}

// What a job has done is on the disk: a process that has just begun tells it of a job that pauses, and of one that was
// cancelled while it did.
func TestARestartForgetsNothingOfAPausedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		w := openWorld(t, fs)
		w.prober.how = stubborn
		w.run()
		j := w.accept(t, list(2000, 4)+"9999,late@busy.example,\n9998,later@grey.example,\n")
		time.Sleep(10 * time.Minute)
		running, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.NotZero(t, running.WaitingBudget)
		require.NotZero(t, running.PendingRetry)
		require.Greater(t, running.ETA, 40*time.Minute, "the retry is due in the second half of an hour")
		require.Equal(t, running.Answered, sumOf(running.ByReason)+running.ByStatus[engine.Valid])
		_, err = w.c.Pause(j.ID)
		require.NoError(t, err)
		synctest.Wait()
		before, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.NotZero(t, before.Processed)
		require.NoError(t, w.close(t))

		w = openWorld(t, fs)
		w.run()
		synctest.Wait()
		after, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobPaused, after.State)
		require.Equal(t, before, after)
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}

func sumOf(counts map[string]int64) (n int64) {
	for _, m := range counts {
		n += m
	}
	return n
}

// A finished job's pace is what was verified over the time it took; rows that nobody asked for are no pace.
func TestTheRateOfAFinishedJob(t *testing.T) {
	began := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	j := store.Job{State: store.JobCancelled, Rows: 130, Blank: 10, Unique: 120, StartedAt: began, FinishedAt: began.Add(10 * time.Second),
		Counts: map[string]int64{"VALID": 60, "INVALID": 40, "UNKNOWN": 20}, Reasons: map[string]int64{"mailbox_not_found": 40, "cancelled": 20}}
	require.InDelta(t, 10, FinishedSnapshot(&j).Rate, 1e-9)
	j.StartedAt = time.Time{}
	require.Zero(t, FinishedSnapshot(&j).Rate, "it never began")
}
