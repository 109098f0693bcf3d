package window

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWindowByExample(t *testing.T) {
	l := Limit{N: 3, Per: time.Minute}
	var w Window
	at := func(seconds int) Decision { return w.Allow(l, start.Add(time.Duration(seconds)*time.Second)) }
	require.Equal(t, Decision{OK: true, Limit: 3, Per: time.Minute, Remaining: 2, Reset: 60 * time.Second}, at(0))
	require.Equal(t, Decision{OK: true, Limit: 3, Per: time.Minute, Remaining: 1, Reset: 50 * time.Second}, at(10))
	require.Equal(t, Decision{OK: true, Limit: 3, Per: time.Minute, Remaining: 0, Reset: 40 * time.Second}, at(20))
	require.Equal(t, Decision{Limit: 3, Per: time.Minute, Reset: 30 * time.Second, RetryAfter: 30 * time.Second},
		at(30))
	require.Equal(t, Decision{Limit: 3, Per: time.Minute, Reset: time.Second, RetryAfter: time.Second}, at(59))
	require.Equal(t, Decision{OK: true, Limit: 3, Per: time.Minute, Remaining: 0, Reset: 10 * time.Second}, at(60),
		"the first has left, and refusals did not count")
	require.False(t, at(61).OK)
}

func TestWindowRetryAfterIsExact(t *testing.T) {
	var w Window
	wide := Limit{N: 5, Per: time.Minute}
	for i := range 5 {
		w.Allow(wide, start.Add(time.Duration(i)*time.Second))
	}
	// The limit was lowered to two while five events count: four have to leave before the next.
	d := w.Allow(Limit{N: 2, Per: time.Minute}, start.Add(10*time.Second))
	require.Equal(t, 53*time.Second, d.RetryAfter)
	d = w.Allow(Limit{N: 0, Per: time.Minute}, start.Add(10*time.Second))
	require.False(t, d.OK)
	require.Equal(t, 0, d.Remaining)
	require.GreaterOrEqual(t, d.RetryAfter, time.Second)
	require.GreaterOrEqual(t, w.Allow(wide, start.Add(time.Minute-1)).RetryAfter, time.Second, "never 0")
}

func TestWindowSurvivesClockSetBack(t *testing.T) {
	l := Limit{N: 2, Per: time.Minute}
	var w Window
	w.Allow(l, start.Add(365*24*time.Hour))
	w.Allow(l, start.Add(365*24*time.Hour))
	require.False(t, w.Allow(l, start).OK)
	require.True(t, w.Allow(l, start.Add(time.Minute)).OK, "no longer than a span")
}

// TestWindowIsExact compares the window with the list of all events.
func TestWindowIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Limit{N: rapid.IntRange(1, 12).Draw(rt, "limit"), Per: time.Minute}
		var w Window
		var counted []time.Time
		now := start
		for range rapid.IntRange(1, 80).Draw(rt, "acts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(rt, "ms")) * time.Millisecond)
			counted = slices.DeleteFunc(counted, func(at time.Time) bool { return !at.Add(l.Per).After(now) })
			d := w.Allow(l, now)
			require.Equal(rt, len(counted) < l.N, d.OK)
			if d.OK {
				counted = append(counted, now)
				require.Zero(rt, d.RetryAfter)
			} else {
				free := counted[len(counted)-l.N].Add(l.Per).Sub(now)
				require.Equal(rt, max(free, time.Second), d.RetryAfter)
			}
			require.Equal(rt, l.N-len(counted), d.Remaining)
			require.Equal(rt, len(counted), w.total)
			again, err := Read(w.AppendTo(nil))
			require.NoError(rt, err)
			require.Equal(rt, w.total, again.total)
		}
	})
}

// TestGroupedWindowNeverExceedsItsLimit and stays small.
func TestGroupedWindowNeverExceedsItsLimit(t *testing.T) {
	l := Limit{N: 1500, Per: 10 * time.Second}
	var w Window
	var counted []time.Time
	now, refused := start, 0
	for i := range 15_000 {
		now = now.Add(time.Duration(i%7) * time.Millisecond)
		counted = slices.DeleteFunc(counted, func(at time.Time) bool { return !at.Add(l.Per).After(now) })
		if w.Allow(l, now).OK {
			counted = append(counted, now)
		} else {
			refused++
		}
		if len(counted) > l.N || len(w.marks) > maxExactMarks+1 {
			t.Fatalf("%d acts in %d marks", len(counted), len(w.marks))
		}
	}
	require.NotZero(t, refused)
	require.True(t, w.Allow(l, now.Add(l.Per+l.Per/maxExactMarks)).OK)
}

func FuzzReadWindow(f *testing.F) {
	var w Window
	for range 3 {
		w.Add(Limit{N: 3, Per: time.Hour}, start)
	}
	f.Add(w.AppendTo(nil))
	f.Fuzz(func(t *testing.T, v []byte) {
		w, err := Read(v)
		if err == nil && string(w.AppendTo(nil)) != string(v) {
			t.Fatalf("%x read as %v", v, w)
		}
	})
}
