package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/coordinator/progress"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// Rows that wait for a budget are counted as waiting: returned rows, and ready rows of a paused class.
func TestProgressCountsRowsWaitingForBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.prober.outcome = holdBusyRows
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
		require.InEpsilon(t, 224*time.Hour, s.ETA, 0.05, "20 an hour of 4,000 expected refusals and 480 controls")
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}

// A job's progress is on the disk: a new process shows it for a paused job, and for one that was cancelled while
// paused.
func TestRestartKeepsProgressOfPausedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		w := newTestEnv(t, fs)
		w.prober.outcome = holdBusyRows
		w.run()
		j := w.accept(t, testCSV(2000, 4)+"9999,late@busy.example,\n9998,later@grey.example,\n")
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

		w = newTestEnv(t, fs)
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

// holding answers 25 rows of the busy host each quarter of an hour and holds the others meanwhile, as a node does.
type holding struct {
	*fakeProber
	open   time.Time // when the budget allows more
	silent bool      // it does not report rows that wait for a budget, and answers no more
}

func (h *holding) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	part := wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch}
	next := 0
	if now := time.Now(); !now.Before(h.open) {
		for ; next < min(25, len(b.Rows)); next++ {
			part.Rows = append(part.Rows, wire.Result{Row: b.Rows[next].Number, Verdict: fakeVerdictAt(next)})
		}
		h.open = now.Add(15 * time.Minute)
	}
	due := h.open
	if h.silent {
		h.open, due = time.Now().AddDate(1, 0, 0), time.Time{}
	} else {
		part.BudgetWait = wire.BudgetWait{Rows: len(b.Rows) - next, Until: h.open}
	}
	emit(part)
	select {
	case <-ctx.Done():
	case <-time.After(hold):
	}
	part.Rows, part.BudgetWait, part.Done = nil, wire.BudgetWait{}, true
	for _, r := range b.Rows[next:] {
		part.Rows = append(part.Rows, wire.Result{Row: r.Number, Outcome: wire.Returned, Due: due})
	}
	emit(part)
	return ctx.Err()
}

// Rows that a node holds wait for a budget. The ETA comes from its windows: the answers from before it was used up do
// not count.
func TestETAOfRowsThatWaitForABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(w *testEnv, cfg *Config) { cfg.Prober = &holding{fakeProber: w.prober} })
		w.run()
		var list strings.Builder
		for i := range 200 {
			fmt.Fprintf(&list, "a%d@busy.example\n", i)
		}
		j := w.accept(t, "email\n"+list.String())
		at := func(after time.Duration) Snapshot {
			time.Sleep(time.Until(j.CreatedAt.Add(after)))
			s, err := w.c.Snapshot(j.ID)
			require.NoError(t, err)
			return s
		}
		for _, after := range []time.Duration{10 * time.Second, 30 * time.Second, 50 * time.Second} {
			s := at(after)
			require.EqualValues(t, 25, s.Answered)
			require.EqualValues(t, 175, s.WaitingBudget, "they are at the node")
			require.InEpsilon(t, 137*time.Minute, s.ETA, 0.05, "after %s: two more windows follow", after)
			require.Len(t, s.Waiting, 1)
			require.Equal(t, s.ETA, s.Waiting[0].ETA)
		}
		s := at(10 * time.Minute)
		require.EqualValues(t, 175, s.WaitingBudget)
		require.InEpsilon(t, 127*time.Minute, s.ETA, 0.05)
		for n := int64(1); n < 7; n++ {
			// the rows of the second chunk are returned by then
			s := at(time.Duration(n)*15*time.Minute + 90*time.Second)
			require.Equal(t, 25*(n+1), s.Answered, "%v", s.Waiting)
		}
		time.Sleep(20 * time.Minute)
		ended := w.finish(t, j.ID)
		require.WithinDuration(t, j.CreatedAt.Add(105*time.Minute), ended.FinishedAt, 3*time.Minute)
		require.NoError(t, w.close(t))
	})
}

// There is no ETA while nothing has moved for a minute though rows need no budget.
func TestNoETAWhileAJobIsStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(w *testEnv,
			cfg *Config) {
			cfg.Prober = &holding{fakeProber: w.prober, silent: true}
		})
		w.run()
		var list strings.Builder
		for i := range 200 {
			fmt.Fprintf(&list, "a%d@busy.example\n", i)
		}
		j := w.accept(t, "email\n"+list.String())
		time.Sleep(30 * time.Second)
		s, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.NotZero(t, s.ETA, "rows were answered a moment ago")
		time.Sleep(65 * time.Second) // while rows are held
		s, err = w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.EqualValues(t, 25, s.Answered)
		require.Zero(t, s.WaitingBudget)
		require.Zero(t, s.ETA)
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}

// A duplicate is done with its first row: in a running job, in a paused one, and after a restart.
func TestDuplicatesFinishWithTheirFirstRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		w := newTestEnv(t, fs)
		w.prober.outcome = holdBusyRows
		w.run()
		// Nine rows of one address that is answered, three of one that is not, a blank one.
		j := w.accept(t, "email,n\n"+strings.Repeat("A@x.example,1\na@x.example,2\n\"a\"@X.example,3\n", 3)+
			strings.Repeat("b@busy.example,\n", 3)+",4\n")
		require.EqualValues(t, 10, j.Duplicates)
		processed := func() int64 {
			s, err := w.c.Snapshot(j.ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Answered)
			return s.Processed
		}
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 10, processed(), "while it runs")
		_, err := w.c.Pause(j.ID)
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 10, processed(), "while it pauses")
		require.NoError(t, w.close(t))

		w = newTestEnv(t, fs)
		w.run()
		synctest.Wait()
		require.EqualValues(t, 10, processed(), "after a restart")
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}

// TestFailedDuplicateCountHarmsNothing damages the duplicates for a while. The job shows the last count and goes on,
// and the failure is in the metrics and once in the log.
func TestFailedDuplicateCountHarmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, log := vfs.NewMem(), &bytes.Buffer{}
		w := newTestEnv(t, fs, func(_ *testEnv, c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
		w.prober.outcome = holdBusyRows
		w.run()
		j := w.accept(t, "email\n"+strings.Repeat("a@x.example\n", 3)+"b@busy.example\n")
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 3, stateOf(t, w, j.ID).Processed)
		file := w.uploadOf(t, j.ID)
		whole, err := readWhole(fs, file)
		require.NoError(t, err)
		duplicate := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 2), 0)
		at := int64(bytes.Index(whole, duplicate))
		require.Positive(t, at)
		writeAt(t, fs, file, []byte{9}, at)
		for range 5 {
			time.Sleep(2 * progress.RecountEvery)
			s := stateOf(t, w, j.ID)
			require.EqualValues(t, 3, s.Processed)
			require.Equal(t, store.JobRunning, s.State)
		}
		require.NoError(t, testutil.CollectAndCompare(w.c, strings.NewReader(`
# HELP probity_jobs Jobs that are not finished, by state.
# TYPE probity_jobs gauge
probity_jobs{state="cancelling"} 0
probity_jobs{state="finalizing"} 0
probity_jobs{state="paused"} 0
probity_jobs{state="queued"} 0
probity_jobs{state="ready"} 0
probity_jobs{state="running"} 1
`), "probity_jobs"))
		_, err = w.c.Pause(j.ID)
		require.NoError(t, err)
		synctest.Wait()
		s := stateOf(t, w, j.ID)
		require.Equal(t, store.JobPaused, s.State)
		require.Empty(t, s.Error)
		require.EqualValues(t, 3, s.Processed)
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "%s", log)
		writeAt(t, fs, file, duplicate, at)
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobCancelled, w.finish(t, j.ID).State)
		require.NoError(t, w.close(t))
	})
}

// writeAt overwrites a part of a file.
func writeAt(t testing.TB, fs vfs.FS, path string, b []byte, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.WriteAt(slices.Clone(b), at)
	require.NoError(t, errors.Join(err, f.Close()))
}

func sumOf(counts map[string]int64) (n int64) {
	for _, m := range counts {
		n += m
	}
	return n
}

// The rate of a finished job is its verified rows over its time; rows that were not verified do not count.
func TestRateOfAFinishedJob(t *testing.T) {
	began := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	j := store.Job{State: store.JobCancelled, Rows: 130, Blank: 10, Unique: 120, StartedAt: began,
		FinishedAt: began.Add(10 * time.Second),
		Counts:     map[string]int64{"VALID": 60, "INVALID": 40, "UNKNOWN": 20},
		Reasons:    map[string]int64{"mailbox_not_found": 40, "cancelled": 20}}
	require.InDelta(t, 10, FinishedSnapshot(&j).Rate, 1e-9)
	j.StartedAt = time.Time{}
	require.Zero(t, FinishedSnapshot(&j).Rate, "it never began")
}
