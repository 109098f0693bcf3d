package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/prober/wire"
)

func TestAnswersFreeTheInFlightLimit(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	i := inFlightLimit{recentMax: 1000}
	full := func() bool { is, _ := i.full(minUnanswered, now); return is }
	interval := i.add(999, now)
	require.False(t, full())
	last := i.add(1, now)
	is, wait := i.full(minUnanswered, now)
	require.True(t, is)
	require.Equal(t, recentInterval, wait)
	i.answered(last, 1)
	require.False(t, full())
	i.answered(interval, 999)
	require.Zero(t, i.unanswered)
	require.Equal(t, [2]int{}, i.recentRows)
}

// TestOldRowsLeaveTheRecentLimit: rows that are not answered soon stop counting as recent; others are sent, up to the
// limit of all.
func TestOldRowsLeaveTheRecentLimit(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	i := inFlightLimit{recentMax: minUnanswered / 4}
	var spans []int
	for range 4 {
		for is, wait := i.full(minUnanswered, now); is; is, wait = i.full(minUnanswered, now) {
			require.Positive(t, wait)
			now = now.Add(wait)
		}
		spans = append(spans, i.add(minUnanswered/4, now))
	}
	is, wait := i.full(minUnanswered, now)
	require.True(t, is)
	require.Negative(t, wait, "only an answer makes room")
	now = now.Add(time.Hour)
	is, _ = i.full(minUnanswered, now)
	require.True(t, is)
	for _, interval := range spans {
		i.answered(interval, minUnanswered/4)
	}
	require.Zero(t, i.unanswered)
	require.Equal(t, [2]int{}, i.recentRows)
}

// TestRowsThatWaitForBudgetsDoNotBlockQuickRows: they do not delay rows that are answered at once.
func TestRowsThatWaitForBudgetsDoNotBlockQuickRows(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	i := inFlightLimit{recentMax: 1000}
	i.add(1500, now)
	now = now.Add(2 * recentInterval)
	for range 100 {
		is, _ := i.full(minUnanswered, now)
		require.False(t, is)
		i.answered(i.add(999, now), 999)
		now = now.Add(recentInterval / 7)
	}
	require.Equal(t, 1500, i.unanswered)
}

// newTestScheduler makes a scheduler with a limit of recent rows, and a job with chunks of 100 rows.
func newTestScheduler(recentMax, n int) *Scheduler {
	d := eightSources(recentMax)
	job := start(d, 0)
	for range n {
		job.Add([]chunks.Chunk{{Class: "google", Rows: 100}})
	}
	<-d.wake
	return d
}

func TestAnswerBelowLimitWakesScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestScheduler(150, 3)
		first, _ := d.pick(time.Now())
		second, _ := d.pick(time.Now())
		require.NotNil(t, second)
		none, wait := d.pick(time.Now())
		require.Nil(t, none)
		require.Equal(t, recentInterval, wait)

		d.answered(first, 50, wire.BudgetWait{})
		require.Empty(t, d.wake, "150 are not answered")
		d.answered(first, 1, wire.BudgetWait{})
		require.Len(t, d.wake, 1)
		third, _ := d.pick(time.Now())
		require.NotNil(t, third)
	})
}

// TestSchedulerWakesWithoutAnswers: the scheduler wakes by itself while all rows wait for budgets.
func TestSchedulerWakesWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestScheduler(150, 3)
		sent := 0
		for began := time.Now(); time.Since(began) <= 2*recentInterval; {
			next, wait := d.pick(time.Now())
			if next != nil {
				sent++
				continue
			}
			if wait < 0 {
				break
			}
			d.sleep(t.Context(), wait)
		}
		require.Equal(t, 3, sent)
	})
}

// TestLimitsGrowWithSources: what may be in flight is the same for few sources, grows with more, and is bounded by
// memory.
func TestLimitsGrowWithSources(t *testing.T) {
	few := flightLimits{unanswered: 64 << 10, dispatchedRows: 128 << 10, chunks: 1024}
	require.Equal(t, few, limitsFor(0), "unknown")
	require.Equal(t, few, limitsFor(24))
	require.Equal(t, flightLimits{unanswered: 512_000, dispatchedRows: 1_024_000, chunks: 4000}, limitsFor(4000))
	require.Equal(t, flightLimits{unanswered: maxUnanswered, dispatchedRows: 2 * maxUnanswered, chunks: maxChunks},
		limitsFor(1_000_000))
}

// TestRowsInFlightScaleWithSources: the scheduler sends a thousand probers with four sources each as many rows as these
// can have.
func TestRowsInFlightScaleWithSources(t *testing.T) {
	sent := map[int]int{}
	for _, sources := range []int{12, 4000} {
		table := engine.DefaultTable()
		d := New(Config{Table: func() *engine.Table { return table }, Sources: func() int { return sources }})
		for range 50 { // jobs, each with more than its classes may have in flight
			job := start(d, 0)
			job.Add(slices.Repeat([]chunks.Chunk{{Class: "google", Rows: wire.MaxRows}}, 2*chunksPerProvider))
		}
		for next, _ := d.pick(time.Now()); next != nil; next, _ = d.pick(time.Now()) {
			sent[sources] += int(next.chunk.Rows)
		}
	}
	require.InDelta(t, 64<<10, sent[12], wire.MaxRows)
	require.InDelta(t, 512_000, sent[4000], wire.MaxRows)
}
