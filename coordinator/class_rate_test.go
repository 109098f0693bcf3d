package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClassRateIncludesBudgetWaits: the ETA of a route whose hourly budget lets 20 rows be answered at once.
func TestClassRateIncludesBudgetWaits(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	job := &runningJob{rates: map[string]*classRate{}}
	p := job.rateOf("slow", began)
	require.Zero(t, p.eta(100, time.Time{}, began.Add(time.Minute), 0), "nothing is known yet")
	p.answered = 20
	now := began.Add(time.Minute)
	require.Equal(t, 5*time.Hour, p.eta(100, began.Add(time.Hour), now, 0))
	require.Equal(t, 5*time.Minute, p.eta(100, time.Time{}, now, 0), "it goes on at once")
	p.answered = 1
	require.Less(t, p.eta(100, began.Add(time.Hour), now, 100), 3*time.Hour, "one row tells little: budgets let expect 100 an hour")
	require.Same(t, p, job.rateOf("slow", now))
	require.Zero(t, job.rates["unknown"].eta(1, now, now, 0))
}
