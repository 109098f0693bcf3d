package prober

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/detector"
	"probity/prober/wire"
)

// TestShortJobFindsRoomAtASharedAddress runs a long backlog for three routes that lead to one address, for a day. A
// short job for a fourth route there comes at any time, and its rows are returned each minute and come again when due:
// neither the backlog's use of the address budget nor an acceptance that only its rows would confirm delays the short
// job.
func TestShortJobFindsRoomAtASharedAddress(t *testing.T) {
	detector.Spare(t)
	for name, locals := range map[string][]string{"unknown": {"a%d", "b%d"}, "known": {"ann"}, "both": {"a%d", "ann"}} {
		t.Run(name, func(t *testing.T) {
			h := &fakeServer{rcpt: acceptsOnly("ann")}
			hosts := map[string]*fakeServer{"mx0.a.example": h}
			for i := 1; i < 4; i++ {
				hosts[fmt.Sprintf("mx%d.a.example", i)] = &fakeServer{addr: aliasAddr, down: true}
			}
			withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 20"), nil, hosts,
				func(b *testNode) {
					b.resolve = func(string) []netip.Addr { return []netip.Addr{h.addr} }
					ctx, cancel := context.WithCancel(context.Background())
					var jobs sync.WaitGroup
					long := &wire.Batch{Job: "long", LongBacklog: true, Started: time.Now()}
					for i := range 3 {
						long.Rows = append(long.Rows, b.rows([]string{fmt.Sprintf("mx%d.a.example", i)},
							numberedAddresses(300, fmt.Sprintf("l%d.example", i))...)...)
					}
					jobs.Go(func() {
						require.NoError(t,
							b.prober.Verify(ctx, long, 100*time.Hour, func(wire.Results) {}))
					})
					slowest := time.Duration(0)
					for i := range 5 {
						time.Sleep(2*time.Hour + time.Duration(i)*11*time.Minute)
						for _, q := range b.prober.allQueues() {
							q.RecordLongBacklog(time.Now()) // as each chunk of the long job does
						}
						var emails []string
						for _, local := range locals {
							if local != "ann" {
								local = fmt.Sprintf(local, i)
							}
							emails = append(emails, fmt.Sprintf("%s@s%d.example", local, i))
						}
						slowest = max(slowest, b.timeShortJob(ctx, b.rows([]string{"mx3.a.example"}, emails...)))
					}
					cancel()
					jobs.Wait()
					refused := h.snapshot().refusalTimes
					t.Logf("the slowest in %v; %d refused", slowest, len(refused))
					require.LessOrEqual(t, mostInSpan(refused, time.Hour), 20)
					require.Less(t, slowest, 25*time.Minute)
				})
		})
	}
}

// TestSharedAddressRoomReachesTheShortJob: the only connection of an address is taken when a short job comes for a
// route there, and routes of a long backlog, which are denied now, also wait. When room comes, the short job gets it.
func TestSharedAddressRoomReachesTheShortJob(t *testing.T) {
	h := &fakeServer{rcpt: func(local string) string {
		if strings.HasPrefix(local, "hold") {
			time.Sleep(10 * time.Second)
		}
		return "550 5.1.1 User unknown"
	}}
	table := tableWith("refusals_per_hour = 0", "refusals_per_hour = 200", "connections = 2", "connections = 1")
	withTestNode(t, table, nil, withAliases(map[string]*fakeServer{}, h, 20), func(b *testNode) {
		b.resolve = func(string) []netip.Addr { return []netip.Addr{h.addr} }
		ctx, cancel := context.WithCancel(context.Background())
		var jobs sync.WaitGroup
		long := &wire.Batch{Job: "long", LongBacklog: true, Started: time.Now()}
		for i := range 18 {
			long.Rows = append(long.Rows, b.rows([]string{fmt.Sprintf("mx%d.example", i)},
				numberedAddresses(100, fmt.Sprintf("l%d.example", i))...)...)
		}
		jobs.Go(func() { require.NoError(t, b.prober.Verify(ctx, long, 100*time.Hour, func(wire.Results) {})) })
		for i := range 5 {
			time.Sleep(19 * time.Minute)
			jobs.Go(func() { b.single(20*time.Second, []string{"mx18.example"}, fmt.Sprintf("hold%d@one.example", i)) })
			time.Sleep(2 * time.Second)
			took := b.timeShortJob(ctx, b.rows([]string{"mx19.example"}, fmt.Sprintf("a%d@s.example", i)))
			t.Log(took)
			require.Less(t, took, 15*time.Second)
		}
		cancel()
		jobs.Wait()
		require.LessOrEqual(t, mostInSpan(h.snapshot().refusalTimes, time.Hour), 200)
		require.Equal(t, 1, h.snapshot().peak)
	})
}

// timeShortJob returns how long the rows of a short job take, sent minute by minute as the coordinator does.
func (b *testNode) timeShortJob(ctx context.Context, rows []wire.Row) time.Duration {
	began := time.Now()
	byNumber := map[uint32]wire.Row{}
	for _, r := range rows {
		byNumber[r.Number] = r
	}
	for len(rows) > 0 {
		var again []wire.Row
		due := time.Now().Add(time.Second)
		quick := &wire.Batch{Job: "short", Short: true, MaxAge: time.Hour, Started: began, Rows: rows}
		require.NoError(b.t, b.prober.Verify(ctx, quick, time.Minute, func(got wire.Results) {
			for _, r := range got.Rows {
				if r.Outcome == wire.Settled {
					require.NotEqual(b.t, engine.Unknown, r.Verdict.Status)
					continue
				}
				row := byNumber[r.Row]
				row.Attempt = r.Attempt
				again = append(again, row)
				if r.Due.After(due) {
					due = r.Due
				}
			}
		}))
		rows = again
		if len(rows) > 0 {
			time.Sleep(time.Until(due))
		}
	}
	return time.Since(began)
}
