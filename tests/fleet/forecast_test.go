package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
)

// forecast is what was told of a job's end at a time: by its record, and by the receivers' times.
type forecast struct{ at, end, doneBy time.Time }

const (
	// moved is how long after the death of a node its narrow routes have other sources, and these know what is used.
	moved   = 45 * time.Minute
	aWindow = time.Hour + 2*time.Minute // of an hourly budget
)

// TestForecastOutlivesNodes kills two of four nodes while a list waits for budgets. The ends that are told do not
// fall for it by more than a window of the budgets, by which they are off at any time. When the routes of the dead have
// moved, they are off by at most a third of the time that is left, or by one window.
func TestForecastOutlivesNodes(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, 1, 4, 1, func(ctx context.Context, f *memCluster, probers []*memProber) {
		var all []string
		for _, p := range []string{"outlook", "strict", "gmx", "few-recipients", "proofpoint"} {
			all = append(all, f.internet.World.Addresses(p, 800)...)
		}
		id := f.coord.accept(ctx, t, []byte("email\n"+strings.Join(all, "\n")+"\n"))
		var told []forecast
		follow := func(until time.Time) (finished bool) {
			for time.Now().Before(until) && !finished {
				time.Sleep(7 * time.Minute)
				one := forecast{at: time.Now()}
				s, err := f.coord.coordinator.Snapshot(id)
				require.NoError(t, err)
				w, err := f.coord.coordinator.Why(ctx, id)
				require.NoError(t, err)
				finished = s.State.Finished()
				if finished {
					break
				}
				require.NotZero(t, s.ETA, "%d rows answered", s.Answered)
				one.end = one.at.Add(s.ETA)
				for _, r := range w.Receivers {
					if r.DoneBy.After(one.doneBy) {
						one.doneBy = r.DoneBy
					}
				}
				told = append(told, one)
			}
			return finished
		}
		require.False(t, follow(time.Now().Add(90*time.Minute)))
		probers[2].kill()
		probers[3].kill()
		before := told[len(told)-1]
		require.True(t, follow(time.Now().Add(24*time.Hour)))
		job, err := f.coord.coordinator.Job(id)
		require.NoError(t, err)
		for _, one := range told {
			left := job.FinishedAt.Sub(one.at)
			for name, end := range map[string]time.Time{"ETA": one.end, "done by": one.doneBy} {
				off := end.Sub(job.FinishedAt).Round(time.Minute)
				t.Logf("%s before the end %s is off by %s", left.Round(time.Minute), name, off)
				if one.at.After(before.at.Add(moved)) {
					require.LessOrEqual(t, off.Abs(), max(left/3, aWindow), name)
				}
				if one.at.After(before.at) {
					require.False(t, end.Before(before.end.Add(-aWindow)), "%s fell when nodes died", name)
				}
			}
		}
		probers[2].start()
		probers[3].start()
	})
}
