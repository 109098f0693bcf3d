package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

// noSingleCalls expects none.
type noSingleCalls struct{}

func (noSingleCalls) Expected(time.Time) bool { return false }

// TestPacingUsesTheHour lets a long backlog ask whatever it may, with any replies: it uses what the budget allows, in
// any part of an hour at most two portions more than that part, and the window's limit holds.
func TestPacingUsesTheHour(t *testing.T) {
	const hours = 10
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 5, 16, 20, 30, 160, 200}).Draw(t, "limit")
		refused := rapid.IntRange(10, 100).Draw(t, "percent refused")
		now := time.Unix(1_700_000_000, 0)
		end := now.Add(hours * time.Hour)
		p := New(engine.Limits{RefusalsPerHour: limit}, noSingleCalls{}, now)
		p.Pacing.until = end
		open := p.refusalsAllowed(LongJob, now)
		var seen []time.Time
		for i := 0; now.Before(end); i++ {
			n, d := p.Room(&Conn{}, LongJob, now)
			if n == 0 {
				require.True(t, d.Until.After(now), "it waits in vain")
				now = d.Until
				continue
			}
			n = min(n, rapid.IntRange(1, 5).Draw(t, "n"))
			c := &Conn{}
			p.Reserve(c, n, n)
			now = now.Add(time.Second)
			bad := 0
			for range n {
				if rapid.IntRange(1, 100).Draw(t, "answer") <= refused {
					bad++
					seen = append(seen, now)
				}
			}
			p.Settle(c, Cost{Recipients: n, Accepted: n - bad, Long: n, LongRefused: bad}, now)
		}
		require.GreaterOrEqual(t, float64(len(seen)), 0.97*(hours-1)*float64(open)-1)
		require.LessOrEqual(t, mostInSpan(seen, time.Hour), open)
		portion := (open + portionsPerHour - 1) / portionsPerHour
		require.LessOrEqual(t, mostInSpan(seen, time.Hour/4), (open+3)/4+2*portion)
	})
}

// TestPacingLeavesShortJobsTheirShare lets a long backlog and a short job want all of one budget: the short job gets
// three of four refusals, the long one does not starve, and the limit holds.
func TestPacingLeavesShortJobsTheirShare(t *testing.T) {
	for _, limit := range []int{4, 20, 200} {
		now := time.Unix(1_700_000_000, 0)
		p := New(engine.Limits{RefusalsPerHour: limit}, noSingleCalls{}, now)
		p.Pacing.until = now.Add(100 * time.Hour)
		var seen []time.Time
		had := map[Priority]int{}
		for at := range 12 * 3600 {
			now = now.Add(time.Second)
			priority := LongJob
			if at > 6*3600 {
				p.Pacing.shortUntil = now.Add(shortJobLife)
				priority = [...]Priority{LongJob, ShortJob}[at%2]
			}
			if n, _ := p.Room(&Conn{}, priority, now); n > 0 {
				c, long := &Conn{}, 0
				if priority == LongJob {
					long = 1
				}
				p.Reserve(c, 1, long)
				p.Settle(c, Cost{Recipients: 1, Long: long, LongRefused: long}, now)
				if at > 6*3600 {
					had[priority]++
				}
				seen = append(seen, now)
			}
		}
		require.LessOrEqual(t, mostInSpan(seen, time.Hour), limit)
		require.InDelta(t, 1.0/(1+shortWeight), float64(had[LongJob])/float64(had[LongJob]+had[ShortJob]), 0.1,
			"%d: %v", limit, had)
	}
}

// TestPacingChargesTheQuotedCost: a long backlog has all it may ask in flight when a short job comes, or the report
// that others have used the hour: it pays for two portions, and goes on when one of them is earned again.
func TestPacingChargesTheQuotedCost(t *testing.T) {
	for name, change := range map[string]func(p *Budget, now time.Time){
		"a short job comes": func(p *Budget, now time.Time) { p.Pacing.shortUntil = now.Add(shortJobLife) },
		"others used the hour": func(p *Budget, now time.Time) {
			p.UsedByOthers = OthersUsage{200,
				now.Add(shortJobLife)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			p := New(engine.Limits{RefusalsPerHour: 200}, noSingleCalls{}, now)
			p.Pacing.until = now.Add(100 * time.Hour)
			n, _ := p.Room(&Conn{}, LongJob, now)
			p.Reserve(&Conn{}, n, n)
			change(&p, now)
			p.Settle(&Conn{}, Cost{Recipients: n, Long: n, LongRefused: n}, now)
			n, _ = p.Room(&Conn{}, LongJob, now.Add(time.Hour/portionsPerHour))
			require.Positive(t, n)
		})
	}
}
