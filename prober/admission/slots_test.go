package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/prober/budget"
)

// TestSlotsAreNeverExceeded takes, returns, closes and opens slots in any order: no more are in use than a priority may
// take, and a waiter is woken, single calls first, once there is room for it.
func TestSlotsAreNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 20
		s, now := NewSlots(size), time.Unix(1_700_000_000, 0)
		var woken []budget.Priority
		var waiters [budget.NumPriorities]Waiter
		waits := [budget.NumPriorities]bool{}
		for priority := range budget.NumPriorities {
			waiters[priority] = NewWaiter(func(time.Time) { woken = append(woken, priority) })
		}
		closed := false
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				priority := budget.Priority(rapid.IntRange(0, int(budget.Single)).Draw(t, "priority"))
				room := size
				if priority.IsJob() {
					room -= size / 10
				}
				free := !closed && s.InUse() < room
				require.Equal(t, free, s.Acquire(&waiters[priority], priority))
				waits[priority] = waits[priority] || !free
			case 3, 4:
				if s.InUse() > 0 {
					s.Release()
				}
			case 5:
				closed = !closed
				if closed {
					s.Close(now)
				} else {
					s.Close(time.Time{})
				}
			}
			require.Equal(t, closed, s.Closed())
			woken = nil
			s.WakeWaiting(now)
			var want []budget.Priority
			for _, priority := range []budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
				if waits[priority] && !closed && (s.InUse() < size-size/10 || !priority.IsJob() && s.InUse() < size) {
					want = append(want, priority)
					waits[priority] = false
				}
			}
			require.Equal(t, want, woken)
		}
	})
}
