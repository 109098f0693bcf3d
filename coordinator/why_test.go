package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/plan"
	"probity/coordinator/progress"
	"probity/engine"
)

// TestRefusedShareCountsWhatBudgetsCount: a full mailbox is refused too, and few answers change little.
func TestRefusedShareCountsWhatBudgetsCount(t *testing.T) {
	share := func(counts map[engine.Reason]int64) float64 {
		var c progress.Counts
		for reason, n := range counts {
			c[reason] = n
		}
		return refusedShare(&c)
	}
	require.InDelta(t, plan.DefaultRefused, share(nil), 1e-9)
	require.InDelta(t, 7.0/31, share(map[engine.Reason]int64{engine.ReasonMailboxFull: 1}), 1e-9)
	require.InDelta(t, 0.5, share(map[engine.Reason]int64{engine.ReasonMailboxNotFound: 3000,
		engine.ReasonMailboxFull: 2000, engine.ReasonNone: 4000, engine.ReasonLowQuality: 1000,
		engine.ReasonDomainNotFound: 90_000}), 0.01)
}
