package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
)

func TestWaitsUseTheMonotonicClock(t *testing.T) {
	now := time.Now()
	at := boundedDue(now.Add(time.Minute).Round(0), time.Hour, now)
	require.NotEqual(t, at.Round(0), at, "what waits does so by the monotonic clock") // == compares the reading, too
}

// TestClockSetBackDelaysNoRows: chunks that were due in minutes while the clock was three hours ahead wait at most
// longestWait, by the monotonic clock.
func TestClockSetBackDelaysNoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := eightSources(1000)
		job := start(d, 0)
		<-d.wake
		now := time.Now()
		job.Add([]chunks.Chunk{{Class: "google", Rows: 100, NotBefore: now.Add(3*time.Hour + time.Minute).Round(0)}})
		most := longestWait(d.cfg.Table())
		require.LessOrEqual(t, most, time.Hour+time.Minute)
		_, wait := d.pick(now)
		require.Equal(t, most, wait)
		<-d.wake
		began := time.Now()
		d.sleep(t.Context(), wait)
		require.Equal(t, maxSleep, time.Since(began), "it looks again each minute")
		next, _ := d.pick(now.Add(most))
		require.NotNil(t, next)
	})
}
