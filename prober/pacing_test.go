package prober

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
	"probity/prober/admission"
	"probity/prober/wire"
)

// TestPacingUsesTheHour lets a long backlog ask whatever it may, with any replies: it uses what the budget allows, in any part of
// an hour at most two portions more than that part, and the window's limit holds.
func TestPacingUsesTheHour(t *testing.T) {
	const hours = 10
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 5, 16, 20, 30, 160, 200}).Draw(t, "limit")
		refused := rapid.IntRange(10, 100).Draw(t, "percent refused")
		now := time.Unix(1_700_000_000, 0)
		end := now.Add(hours * time.Hour)
		p := newBudget(engine.Limits{RefusalsPerHour: limit}, now)
		p.singleCalls = &admission.SingleCalls{}
		p.pacing.until = end
		open := p.refusalsAllowed(bulk, now)
		var seen []time.Time
		for i := 0; now.Before(end); i++ {
			n, d := p.refusalRoom(bulk, now)
			if n == 0 {
				require.True(t, d.until.After(now), "it waits in vain")
				now = d.until
				continue
			}
			n = min(n, rapid.IntRange(1, 5).Draw(t, "n"))
			c := &connUsage{}
			p.reserve(c, n)
			p.pacing.reserved += n
			now = now.Add(time.Second)
			bad := 0
			for range n {
				if rapid.IntRange(1, 100).Draw(t, "answer") <= refused {
					bad++
					seen = append(seen, now)
				}
			}
			p.settle(c, n, n-bad, 0, now)
			p.settleLong(n, bad, now)
		}
		require.GreaterOrEqual(t, float64(len(seen)), 0.97*(hours-1)*float64(open)-1)
		require.LessOrEqual(t, mostInSpan(seen, time.Hour), open)
		portion := (open + portionsPerHour - 1) / portionsPerHour
		require.LessOrEqual(t, mostInSpan(seen, time.Hour/4), (open+3)/4+2*portion)
	})
}

// TestPacingLeavesShortJobsTheirShare lets a long backlog and a short job want all of one budget: the short job gets three of four
// refusals, the long one does not starve, and the limit holds.
func TestPacingLeavesShortJobsTheirShare(t *testing.T) {
	for _, limit := range []int{4, 20, 200} {
		now := time.Unix(1_700_000_000, 0)
		p := newBudget(engine.Limits{RefusalsPerHour: limit}, now)
		p.singleCalls = &admission.SingleCalls{}
		p.pacing.until = now.Add(100 * time.Hour)
		var seen []time.Time
		had := map[priority]int{}
		for at := range 12 * 3600 {
			now = now.Add(time.Second)
			class := bulk
			if at > 6*3600 {
				p.pacing.shortUntil = now.Add(shortJobLife)
				class = [...]priority{bulk, short}[at%2]
			}
			if n, _ := p.refusalRoom(class, now); n > 0 {
				c := &connUsage{}
				p.reserve(c, 1)
				p.settle(c, 1, 0, 0, now)
				if class == bulk {
					p.pacing.reserved++
					p.settleLong(1, 1, now)
				}
				if at > 6*3600 {
					had[class]++
				}
				seen = append(seen, now)
			}
		}
		require.LessOrEqual(t, mostInSpan(seen, time.Hour), limit)
		require.InDelta(t, 1.0/(1+shortWeight), float64(had[bulk])/float64(had[bulk]+had[short]), 0.1, "%d: %v", limit, had)
	}
}

// TestPacingChargesTheQuotedCost: a long backlog has all it may ask in flight when a short job comes, or the report that others
// have used the hour: it pays for two portions, and goes on when one of them is earned again.
func TestPacingChargesTheQuotedCost(t *testing.T) {
	for name, change := range map[string]func(p *budget, now time.Time){
		"a short job comes":    func(p *budget, now time.Time) { p.pacing.shortUntil = now.Add(shortJobLife) },
		"others used the hour": func(p *budget, now time.Time) { p.usedByOthers = othersUsage{200, now.Add(shortJobLife)} },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			p := newBudget(engine.Limits{RefusalsPerHour: 200}, now)
			p.singleCalls = &admission.SingleCalls{}
			p.pacing.until = now.Add(100 * time.Hour)
			n, _ := p.refusalRoom(bulk, now)
			p.reserve(&connUsage{}, n)
			p.pacing.reserved += n
			change(&p, now)
			p.settle(&connUsage{}, n, 0, 0, now)
			p.settleLong(n, n, now)
			n, _ = p.refusalRoom(bulk, now.Add(time.Hour/portionsPerHour))
			require.Positive(t, n)
		})
	}
}

// TestShortJobFindsRoomBesideALongBacklog keeps a ready queue busy for hours with rows that are all refused. A short job of a tenth
// of the hourly budget comes at any time: it is answered within an hour. Without the report of a long backlog it finds the budget
// used up.
func TestShortJobFindsRoomBesideALongBacklog(t *testing.T) {
	for _, longBacklog := range []bool{true, false} {
		t.Run(fmt.Sprintf("steady %v", longBacklog), func(t *testing.T) {
			h := &fakeServer{rcpt: acceptsOnly("nobody")}
			withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 20"), nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				ctx, cancel := context.WithCancel(context.Background())
				var jobs sync.WaitGroup
				long := &wire.Batch{Job: "long", LongBacklog: longBacklog, Started: time.Now(), Rows: b.rows(mxA, numberedAddresses(400, "l.example")...)}
				jobs.Go(func() { require.NoError(t, b.prober.Verify(ctx, long, 100*time.Hour, func(wire.Results) {})) })
				slowest := time.Duration(0)
				for i := range 6 {
					time.Sleep(2*time.Hour + time.Duration(i)*11*time.Minute)
					if longBacklog {
						b.prober.allQueues()[0].noteLongBacklog(time.Now()) // as each chunk of the long job does
					}
					began := time.Now()
					quick := &wire.Batch{Job: "short", Short: true, Started: began, Rows: b.rows(mxA, fmt.Sprintf("a%d@s.example", i), fmt.Sprintf("b%d@s.example", i))}
					require.NoError(t, b.prober.Verify(ctx, quick, 3*time.Hour, func(wire.Results) {}))
					slowest = max(slowest, time.Since(began))
				}
				cancel()
				jobs.Wait()
				require.LessOrEqual(t, mostInSpan(h.snapshot().refusalTimes, time.Hour), 20)
				t.Logf("%v", slowest)
				if longBacklog {
					require.Less(t, slowest, 12*time.Minute)
				} else {
					require.Greater(t, slowest, 20*time.Minute, "the lab spends no hour at once any more")
				}
			})
		})
	}
}

// TestLongBacklogUsesTheHour keeps a ready queue busy for ten hours with a long backlog of which all, or a quarter, is refused:
// after the first hour it uses 97 % of the budget, as a queue without pacing does, and the limit holds.
func TestLongBacklogUsesTheHour(t *testing.T) {
	const hours = 10
	for _, limit := range []int{20, 90} {
		for _, oneOf := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d an hour, one of %d refused", limit, oneOf), func(t *testing.T) {
				h := &fakeServer{rcpt: func(local string) string {
					if len(local) > 4 && int(local[len(local)-1]-'0')%oneOf == 0 {
						return "550 5.1.1 User unknown"
					}
					return "250 2.1.5 ok"
				}}
				withTestNode(t, tableWith("refusals_per_hour = 0", fmt.Sprintf("refusals_per_hour = %d", limit)), nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
					var word sync.WaitGroup
					word.Go(func() {
						time.Sleep(time.Second)
						q := b.prober.allQueues()[0]
						q.mu.Lock()
						q.budget.pacing.until = time.Now().Add(hours * time.Hour)
						q.mu.Unlock()
					})
					b.verify(hours*time.Hour, b.rows(mxA, numberedAddresses(hours*limit*oneOf+100, "a.example")...)...)
					word.Wait()
					seen, open := h.snapshot().refusalTimes, limit-reservedForFirst(limit)
					t.Logf("%d of %d, on %d connections", len(seen), hours*open, len(h.snapshot().dialTimes))
					require.LessOrEqual(t, mostInSpan(seen, time.Hour), open)
					require.GreaterOrEqual(t, float64(len(seen)), 0.97*float64((hours-1)*open))
				})
			})
		}
	}
}
