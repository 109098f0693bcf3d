package source

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSourceThatIsDownSendsTrialConnections(t *testing.T) {
	var src breaker
	try := func(at time.Time) time.Time {
		wait, _ := src.TryAt("r", false, 0, at)
		return wait
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range downFailures - 1 {
		require.False(t, src.RecordConnect(false, false, strconv.Itoa(i%downRoutes), now))
	}
	require.True(t, src.RecordConnect(false, false, "0", now))
	require.True(t, src.IsDown())
	require.Equal(t, now.Add(trialInterval), try(now))
	later := now.Add(trialInterval)
	require.Zero(t, try(later), "the canary goes")
	require.Equal(t, later.Add(trialInterval), try(later), "and no other with it")
	require.True(t, src.RecordConnect(true, false, "9", later))
	require.False(t, src.IsDown())
	require.Zero(t, try(later))

	few := breaker{}
	for range 10 * downFailures {
		require.False(t, few.RecordConnect(false, false, "one route", now),
			"one route that does not answer is no sickness of ours")
	}
}

// TestRowsMakeEveryFourthTrial: while a source is down, every fourth trial connection is left to the ready queues: the
// host that it reached last may be gone.
func TestRowsMakeEveryFourthTrial(t *testing.T) {
	var src breaker
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	src.RecordReached(Target{Domain: "a.example"})
	for i := range downFailures {
		src.RecordConnect(false, false, strconv.Itoa(i%downRoutes), now)
	}
	for i := range 8 {
		at, to := src.NextTrial(Reachability, now)
		require.False(t, now.Before(at))
		require.Equal(t, i%4 == 3, to.Domain == "", "trial %d", i)
		wait, _ := src.TryAt("r", to.Domain != "", 0, now.Add(TrialGrace))
		require.Zero(t, wait)
		now = now.Add(TrialGrace + trialInterval)
	}
}
