package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPaceCountsTheWaitForABudget tells when a route ends of which an hour's budget lets 20 rows be answered at once.
func TestPaceCountsTheWaitForABudget(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	l := &live{paces: map[string]*classPace{}}
	p := l.paceOf("slow", began)
	require.Zero(t, p.eta(100, time.Time{}, began.Add(time.Minute)), "nothing is known yet")
	p.answered = 20
	now := began.Add(time.Minute)
	require.Equal(t, 5*time.Hour, p.eta(100, began.Add(time.Hour), now))
	require.Equal(t, 5*time.Minute, p.eta(100, time.Time{}, now), "it goes on at once")
	require.Same(t, p, l.paceOf("slow", now))
	require.Zero(t, l.paces["unknown"].eta(1, now, now))
}
