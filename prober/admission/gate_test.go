package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// busyAdmission is an admission gate of two processors with a given number of runnable goroutines.
func busyAdmission(ready *int, most int) *Gate {
	return NewGate(most, 2, func() int { return *ready }, &SingleCalls{})
}

func TestAdmissionFollowsTheProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		gate := busyAdmission(&ready, 1000)
		waiting := func() int {
			gate.mu.Lock() // its timer looks too
			defer gate.mu.Unlock()
			return gate.waiting.Len()
		}
		limit := func() int {
			gate.mu.Lock()
			defer gate.mu.Unlock()
			return gate.limit
		}
		let := func() (n int) {
			for ; waiting() == 0; n++ {
				gate.Enter()
			}
			return n
		}
		require.Equal(t, 2*initialLimit+1, let(), "so many at first, and the next one waits")
		time.Sleep(10 * adjustEvery)
		require.Zero(t, waiting(), "the processor is idle: who waits is let in though nobody leaves")
		ready = 1000
		for range 2*initialLimit + 1 - 2*minLimit {
			time.Sleep(adjustEvery)
			gate.Leave()
		}
		require.Equal(t, 2*minLimit, limit(), "never less, whatever else is going on")
		ready = 0
		for range 100 {
			let()
			time.Sleep(10 * adjustEvery)
		}
		require.Equal(t, 1000, limit(), "never more than there are sessions")
		for waiting() > 0 {
			gate.Leave()
		}
	})
}

// TestAdmissionYieldsToSingles: under load from single calls, one runnable goroutine is too many; a moment after it is
// not.
func TestAdmissionYieldsToSingles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 2
		gate := busyAdmission(&ready, 1000)
		sessions := func(n int) (limit int) {
			for range n {
				time.Sleep(adjustEvery)
				gate.Enter()
				gate.mu.Lock()
				limit = gate.limit
				gate.mu.Unlock()
				gate.Leave()
			}
			return limit
		}
		require.Equal(t, 2*initialLimit, sessions(40), "two wait: few, but not none")
		call := func(n int) {
			for range n {
				gate.singleCalls.Record(time.Now())
			}
		}
		call(press.Least - 1)
		require.Equal(t, 2*initialLimit, sessions(40), "a few singles")
		call(100 * press.Least)
		require.Equal(t, 1, sessions(int(press.Longest/adjustEvery)-1))
		gate.mu.Lock() // its timer looks too
		ready = 0
		gate.mu.Unlock()
		require.Greater(t, sessions(40), 1, "and back")
	})
}

// TestAdmissionLimitFallsAtOnce: many sessions are admitted when single calls begin to come. If the processor is idle,
// they stay.
func TestAdmissionLimitFallsAtOnce(t *testing.T) {
	for ready, want := range map[int]int{0: 2 * initialLimit, 2: 1} {
		synctest.Test(t, func(t *testing.T) {
			gate := busyAdmission(&ready, 1000)
			for range 2 * initialLimit {
				require.Nil(t, gate.Enter())
			}
			for range 100 * press.Least {
				gate.singleCalls.Record(time.Now())
			}
			time.Sleep(adjustEvery)
			gate.Leave()
			gate.mu.Lock() // its timer looks too
			defer gate.mu.Unlock()
			require.GreaterOrEqual(t, gate.limit, want)
			require.LessOrEqual(t, gate.limit, 2*want)
		})
	}
}

// TestAdmissionLetsATrickleIn: under load from single calls only a trickle is admitted after a late timer, all after
// one in time.
func TestAdmissionLetsATrickleIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		gate := busyAdmission(&ready, 1000)
		late := func() {
			gate.mu.Lock()
			if gate.timer != nil {
				gate.timer.Stop()
			}
			gate.timerDue = time.Now().Add(-timerTolerance - 1)
			gate.mu.Unlock()
			gate.onTimer()
		}
		limit := func() int {
			gate.mu.Lock()
			defer gate.mu.Unlock()
			return gate.limit
		}
		time.Sleep(trickleEvery)
		late()
		require.Equal(t, 2*initialLimit, limit(), "nobody asks for singles")
		time.Sleep(adjustEvery)
		for range press.Least {
			gate.singleCalls.Record(time.Now())
		}
		late()
		require.Zero(t, limit())
		require.Nil(t, gate.Enter(), "one, if there was none for a while")
		second := gate.Enter()
		require.NotNil(t, second)
		gate.Leave()
		select {
		case <-second.admitted:
			t.Fatal("not the next at once")
		default:
		}
		began := time.Now()
		require.True(t, gate.Wait(t.Context(), second))
		require.LessOrEqual(t, time.Since(began), 2*adjustEvery, "a timer was in time")
		gate.Leave()
	})
}

func TestExpeditedTicketIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 1000 // so that no session is admitted by time
		gate := busyAdmission(&ready, 1)
		require.Nil(t, gate.Enter())
		first, second, third := gate.Enter(), gate.Enter(), gate.Enter()
		require.True(t, gate.Expedite(third))
		require.False(t, gate.Expedite(third), "is in already")
		require.True(t, gate.Wait(t.Context(), third))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, gate.Wait(ctx, first), "has gone")
		require.False(t, gate.Expedite(first))
		gate.Leave()
		require.Equal(t, 1, gate.waiting.Len(), "third is still inside")
		gate.Leave()
		require.True(t, gate.Wait(t.Context(), second))
		require.Equal(t, 1, gate.admitted)
	})
}
