package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
)

// TestManyJobsSyncAsOftenAsOne: the sync interval of a job grows with the number of jobs.
func TestManyJobsSyncAsOftenAsOne(t *testing.T) {
	for jobs, want := range map[int]time.Duration{0: jobfiles.FlushAfter, 1: jobfiles.FlushAfter,
		4: 4 * jobfiles.FlushAfter, maxRunning: maxFlushAfter} {
		c := New(Config{})
		for range jobs {
			c.runningSlots <- struct{}{}
		}
		require.Equal(t, want, c.flushAfter(), "%d jobs", jobs)
	}
}
