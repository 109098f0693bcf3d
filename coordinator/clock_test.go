package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/store"
)

// TestWrongClockAtStartDeletesNothing starts with a clock that is eight days ahead: for a day a finished job keeps its
// results, a paused one is not cancelled, and a running one is not ended. If the clock is corrected in that time,
// nothing is lost.
func TestWrongClockAtStartDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		w := newTestEnv(t, disk)
		w.run()
		done := w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		w.prober.outcome = holdBusyRows
		running, paused := w.accept(t, "email\na@x.example\nb@busy.example\n"), w.accept(t, "email\nb@busy.example\n")
		synctest.Wait()
		_, err := w.c.Pause(paused.ID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, w.close(t))

		time.Sleep(8 * 24 * time.Hour) // the clock's error
		w = newTestEnv(t, disk)
		w.prober.outcome = holdBusyRows
		w.run()
		time.Sleep(24*time.Hour - time.Minute)
		require.Equal(t, store.JobCompleted, stateOf(t, w, done.ID).State)
		w.results(t, done.ID, results.Filter{})
		require.Equal(t, store.JobPaused, stateOf(t, w, paused.ID).State)
		require.Equal(t, store.JobRunning, stateOf(t, w, running.ID).State)
		time.Sleep(2 * time.Hour)
		require.Equal(t, store.JobExpired, stateOf(t, w, done.ID).State)
		require.Equal(t, store.JobCancelled, stateOf(t, w, paused.ID).State)
		require.Equal(t, store.JobCompleted, stateOf(t, w, running.ID).State)
		require.NoError(t, w.close(t))
	})
}
