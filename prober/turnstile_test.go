package prober

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// busyWith is a turnstile of two processors on which so many goroutines wait.
func busyWith(ready *int, most int) *turnstile {
	ts := newTurnstile(most, &calls{})
	ts.procs, ts.limit = 2, min(2*firstInside, most)
	ts.ready = func() int { return *ready }
	return ts
}

func TestTurnstileFollowsTheProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		ts := busyWith(&ready, 1000)
		waiting := func() int {
			ts.mu.Lock() // its timer looks too
			defer ts.mu.Unlock()
			return ts.waiting.Len()
		}
		limit := func() int {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			return ts.limit
		}
		let := func() (n int) {
			for ; waiting() == 0; n++ {
				ts.enter()
			}
			return n
		}
		require.Equal(t, 2*firstInside+1, let(), "so many at first, and the next one waits")
		time.Sleep(10 * lookEvery)
		require.Zero(t, waiting(), "the processor is idle: who waits is let in though nobody leaves")
		ready = 1000
		for range 2*firstInside + 1 - 2*leastInside {
			time.Sleep(lookEvery)
			ts.leave()
		}
		require.Equal(t, 2*leastInside, limit(), "never less, whatever else is going on")
		ready = 0
		for range 100 {
			let()
			time.Sleep(10 * lookEvery)
		}
		require.Equal(t, 1000, limit(), "never more than there are sessions")
		for waiting() > 0 {
			ts.leave()
		}
	})
}

// TestTurnstileYieldsToSingles: while many come, one goroutine that waits is too many; a moment after the last it is not.
func TestTurnstileYieldsToSingles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 2
		ts := busyWith(&ready, 1000)
		sessions := func(n int) (limit int) {
			for range n {
				time.Sleep(lookEvery)
				ts.enter()
				ts.mu.Lock()
				limit = ts.limit
				ts.mu.Unlock()
				ts.leave()
			}
			return limit
		}
		require.Equal(t, 2*firstInside, sessions(40), "two wait: few, but not none")
		call := func(n int) {
			for range n {
				ts.calls.called(time.Now())
			}
		}
		call(press.Least - 1)
		require.Equal(t, 2*firstInside, sessions(40), "a few singles")
		call(100 * press.Least)
		require.Equal(t, 1, sessions(int(press.Hold/lookEvery)-1))
		ts.mu.Lock() // its timer looks too
		ready = 0
		ts.mu.Unlock()
		require.Greater(t, sessions(40), 1, "and back")
	})
}

// TestTurnstileFallsAtOnce: many are inside when singles begin to come. Where the processor is idle all the same, they may stay many.
func TestTurnstileFallsAtOnce(t *testing.T) {
	for ready, want := range map[int]int{0: 2 * firstInside, 2: 1} {
		synctest.Test(t, func(t *testing.T) {
			ts := busyWith(&ready, 1000)
			for range 2 * firstInside {
				require.Nil(t, ts.enter())
			}
			for range 100 * press.Least {
				ts.calls.called(time.Now())
			}
			time.Sleep(lookEvery)
			ts.leave()
			ts.mu.Lock() // its timer looks too
			defer ts.mu.Unlock()
			require.GreaterOrEqual(t, ts.limit, want)
			require.LessOrEqual(t, ts.limit, 2*want)
		})
	}
}

// TestTurnstileLetsATrickleIn: after a timer that was late, while many singles come, and everybody again after one in time.
func TestTurnstileLetsATrickleIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		ts := busyWith(&ready, 1000)
		late := func() {
			ts.mu.Lock()
			if ts.timer != nil {
				ts.timer.Stop()
			}
			ts.due = time.Now().Add(-tooLate - 1)
			ts.mu.Unlock()
			ts.tick()
		}
		limit := func() int {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			return ts.limit
		}
		time.Sleep(trickle)
		late()
		require.Equal(t, 2*firstInside, limit(), "nobody asks for singles")
		time.Sleep(lookEvery)
		for range press.Least {
			ts.calls.called(time.Now())
		}
		late()
		require.Zero(t, limit())
		require.Nil(t, ts.enter(), "one, if there was none for a while")
		second := ts.enter()
		require.NotNil(t, second)
		ts.leave()
		select {
		case <-second.in:
			t.Fatal("not the next at once")
		default:
		}
		began := time.Now()
		require.True(t, ts.wait(t.Context(), second))
		require.LessOrEqual(t, time.Since(began), 2*lookEvery, "a timer was in time")
		ts.leave()
	})
}

func TestTurnstileLetsWhoIsHurriedThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 1000 // so that nobody is let in by time
		ts := busyWith(&ready, 1)
		require.Nil(t, ts.enter())
		first, second, third := ts.enter(), ts.enter(), ts.enter()
		require.True(t, ts.hurry(third))
		require.False(t, ts.hurry(third), "is in already")
		require.True(t, ts.wait(t.Context(), third))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, ts.wait(ctx, first), "has gone")
		require.False(t, ts.hurry(first))
		ts.leave()
		require.Equal(t, 1, ts.waiting.Len(), "third is still inside")
		ts.leave()
		require.True(t, ts.wait(t.Context(), second))
		require.Equal(t, 1, ts.inside)
	})
}
