package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneTaskOfAnAccountRuns: 64 tasks of one account run one after another.
func TestOneTaskOfAnAccountRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		done, err := turns.Begin(t.Context(), "ann")
		require.NoError(t, err)
		var running, ended atomic.Int32
		for range 64 {
			go func() {
				done, err := turns.Begin(t.Context(), "ann")
				if err != nil {
					return
				}
				running.Add(1)
				time.Sleep(time.Second)
				if running.Add(-1) == 0 {
					ended.Add(1)
				}
				done()
			}()
		}
		synctest.Wait()
		require.Zero(t, running.Load())
		other, err := turns.Begin(t.Context(), "bo")
		require.NoError(t, err, "another account does not wait")
		other()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = turns.Begin(impatient, "ann")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		done()
		time.Sleep(65 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 64, ended.Load(), "never two at once")
		require.Empty(t, turns.running)
	})
}
