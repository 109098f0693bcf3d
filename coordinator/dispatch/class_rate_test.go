package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClassRateIncludesBudgetWaits: the ETA of a route whose hourly budget lets 20 rows be answered at once.
func TestClassRateIncludesBudgetWaits(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	job := &Job{rates: map[string]*classRate{}}
	cr := job.rateOf("slow", began)
	require.Zero(t, cr.eta(100, time.Time{}, began.Add(time.Minute), 0), "nothing is known yet")
	cr.answered = 20
	now := began.Add(time.Minute)
	require.Equal(t, 5*time.Hour, cr.eta(100, began.Add(time.Hour), now, 0))
	require.Equal(t, 5*time.Minute, cr.eta(100, time.Time{}, now, 0), "it goes on at once")
	cr.answered = 1
	require.Less(t, cr.eta(100, began.Add(time.Hour), now, 100), 3*time.Hour,
		"one row tells little: budgets let expect 100 an hour")
	require.Same(t, cr, job.rateOf("slow", now))
	require.Zero(t, job.rates["unknown"].eta(1, now, now, 0))
}
