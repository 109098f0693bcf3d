package prober

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSourceThatIsDownSendsTrialConnections(t *testing.T) {
	var h health
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range downFailures - 1 {
		require.False(t, h.recordConnect(false, strconv.Itoa(i%downRoutes), now))
	}
	require.True(t, h.recordConnect(false, "0", now))
	require.True(t, h.isDown())
	require.Equal(t, now.Add(trialInterval), h.tryAt(false, now))
	later := now.Add(trialInterval)
	require.Zero(t, h.tryAt(false, later), "the canary goes")
	require.Equal(t, later.Add(trialInterval), h.tryAt(false, later), "and no other with it")
	require.True(t, h.recordConnect(true, "9", later))
	require.False(t, h.isDown())
	require.Zero(t, h.tryAt(false, later))

	few := health{}
	for range 10 * downFailures {
		require.False(t, few.recordConnect(false, "one route", now), "one route that does not answer is no sickness of ours")
	}
}
