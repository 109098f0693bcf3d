package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClassRate: the ETA of a class at its rate so far.
func TestClassRate(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	job := &Job{rates: map[string]*classRate{}}
	cr := job.rateOf("quick", began)
	cr.answered = 20
	require.Equal(t, 5*time.Minute, cr.eta(100, began.Add(time.Minute)))
	require.Same(t, cr, job.rateOf("quick", began.Add(time.Hour)))
}
