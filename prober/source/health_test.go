package source

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSourceThatIsDownSendsTrialConnections(t *testing.T) {
	var h Health
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range downFailures - 1 {
		require.False(t, h.RecordConnect(false, strconv.Itoa(i%downRoutes), now))
	}
	require.True(t, h.RecordConnect(false, "0", now))
	require.True(t, h.IsDown())
	require.Equal(t, now.Add(trialInterval), h.tryAt(false, now))
	later := now.Add(trialInterval)
	require.Zero(t, h.tryAt(false, later), "the canary goes")
	require.Equal(t, later.Add(trialInterval), h.tryAt(false, later), "and no other with it")
	require.True(t, h.RecordConnect(true, "9", later))
	require.False(t, h.IsDown())
	require.Zero(t, h.tryAt(false, later))

	few := Health{}
	for range 10 * downFailures {
		require.False(t, few.RecordConnect(false, "one route", now), "one route that does not answer is no sickness of ours")
	}
}
