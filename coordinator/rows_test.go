package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
)

// TestManyJobsSyncAsOftenAsOne: an answer waits for its sync as many times longer as there are jobs.
func TestManyJobsSyncAsOftenAsOne(t *testing.T) {
	for jobs, want := range map[int]time.Duration{0: jobfiles.FlushAfter, 1: jobfiles.FlushAfter, 4: 4 * jobfiles.FlushAfter, maxRunning: maxFlushAfter} {
		c := New(Config{})
		for range jobs {
			c.runningSlots <- struct{}{}
		}
		require.Equal(t, want, c.flushAfter(), "%d jobs", jobs)
	}
}
