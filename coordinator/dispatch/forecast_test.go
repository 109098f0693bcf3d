package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/progress"
	"probity/engine"
	"probity/prober/wire"
)

// TestAFewRowsDoNotHideTheETA: a small route that waits for its budget, and has answered nothing yet, leaves the end of
// a large job known. A route with a thousandth of the addresses that are left does not.
func TestAFewRowsDoNotHideTheETA(t *testing.T) {
	for rows, known := range map[int]bool{8: true, 9: false} {
		synctest.Test(t, func(t *testing.T) {
			job := start(eightSources(0), 10_000)
			job.cfg.Progress = progress.New(10_000, &progress.Totals{})
			began := time.Now()
			job.cfg.Progress.Begin(began)
			time.Sleep(10 * time.Second)
			for row := range uint32(1000) {
				job.cfg.Progress.Add(row, &engine.Verdict{})
			}
			job.cfg.Progress.RecordActivity(time.Now())
			job.queues["google"] = &classQueue{class: "google", unanswered: 9000 - rows}
			job.rates["google"] = &classRate{since: began, answered: 1000}
			waits := wire.BudgetWait{Rows: rows, Until: time.Now().Add(time.Hour)}
			job.queues["mx.slow.example"] = &classQueue{class: "mx.slow.example", unanswered: rows, budgetWait: waits}

			f := job.Forecast(time.Now(), time.Time{}, time.Time{})
			require.EqualValues(t, rows, f.WaitingBudget)
			require.Equal(t, known, f.ETA >= time.Hour, "%d rows: %s; the budget opens in an hour", rows, f.ETA)
			require.Equal(t, known, f.ETA > 0)
			f = job.Forecast(time.Now(), time.Now().Add(5*time.Hour), time.Time{})
			require.Equal(t, 5*time.Hour, f.ETA, "the windows of the budgets are known")
			f = job.Forecast(time.Now(), time.Now().Add(5*time.Hour), time.Now().Add(20*time.Minute))
			require.Equal(t, 20*time.Minute, f.ETA, "then the job gives up")
			for _, one := range f.Waiting {
				require.LessOrEqual(t, one.ETA, 20*time.Minute, one.Class)
			}
		})
	}
}
