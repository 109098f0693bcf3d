package prober

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/prober/wire"
)

// TestShortJobFindsRoomBesideALongBacklog keeps a ready queue busy for hours with rows that are all refused. A short
// job of a tenth of the hourly budget comes at any time: it is answered within an hour. Without the report of a long
// backlog it finds the budget used up.
func TestShortJobFindsRoomBesideALongBacklog(t *testing.T) {
	detector.Spare(t)
	for _, longBacklog := range []bool{true, false} {
		t.Run(fmt.Sprintf("steady %v", longBacklog), func(t *testing.T) {
			h := &fakeServer{rcpt: acceptsOnly("nobody")}
			withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 20"), nil,
				map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
					ctx, cancel := context.WithCancel(context.Background())
					var jobs sync.WaitGroup
					long := &wire.Batch{Job: "long", LongBacklog: longBacklog, Started: time.Now(),
						Rows: b.rows(mxA, numberedAddresses(400, "l.example")...)}
					jobs.Go(func() {
						require.NoError(t,
							b.prober.Verify(ctx, long, 100*time.Hour, func(wire.Results) {}))
					})
					slowest := time.Duration(0)
					for i := range 6 {
						time.Sleep(2*time.Hour + time.Duration(i)*11*time.Minute)
						if longBacklog {
							b.prober.allQueues()[0].RecordLongBacklog(time.Now()) // as each chunk of the long job does
						}
						began := time.Now()
						quick := &wire.Batch{Job: "short", Short: true, Started: began,
							Rows: b.rows(mxA, fmt.Sprintf("a%d@s.example", i), fmt.Sprintf("b%d@s.example", i))}
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

// TestLongBacklogUsesTheHour keeps a ready queue busy for ten hours with a long backlog of which all, or a quarter, is
// refused: after the first hour it uses 97 % of the budget, as a queue without pacing does, and the limit holds.
func TestLongBacklogUsesTheHour(t *testing.T) {
	detector.Spare(t)
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
				withTestNode(t, tableWith("refusals_per_hour = 0", fmt.Sprintf("refusals_per_hour = %d", limit)), nil,
					map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
						var word sync.WaitGroup
						word.Go(func() {
							time.Sleep(time.Second)
							for range 60 * hours {
								// as each chunk of the long job does
								b.prober.allQueues()[0].RecordLongBacklog(time.Now())
								time.Sleep(time.Minute)
							}
						})
						b.verify(hours*time.Hour, b.rows(mxA,
							numberedAddresses(hours*limit*oneOf+100, "a.example")...)...)
						word.Wait()
						// jobs leave a hundredth to the first single call
						seen, open := h.snapshot().refusalTimes, limit-limit/100
						t.Logf("%d of %d, on %d connections", len(seen), hours*open, len(h.snapshot().dialTimes))
						require.LessOrEqual(t, mostInSpan(seen, time.Hour), open)
						require.GreaterOrEqual(t, float64(len(seen)), 0.97*float64((hours-1)*open))
					})
			})
		}
	}
}
