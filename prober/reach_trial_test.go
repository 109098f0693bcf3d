package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/source"
	"probity/prober/wire"
)

// TestNoReachabilityTrialAfterRecovery: a source that is no longer suspect before its reachability trial is due sends
// no reachability trial.
func TestNoReachabilityTrialAfterRecovery(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		time.Sleep(time.Minute)
		src, dialed := b.prober.sources.List[0], len(h.snapshot().dialTimes)
		wait, _ := src.TryAt("r", true, 0, time.Now()) // a reachability trial, so that the next is due later
		require.Zero(t, wait)
		makeSuspect(src)
		due, _ := src.NextTrial(source.Reachability, time.Now())
		require.Equal(t, 5*time.Second, time.Until(due), "no earlier")
		b.prober.watch(src, source.Reachability)
		time.Sleep(5 * time.Second / 2)
		src.RecordConnect(true, false, "r", time.Now())
		time.Sleep(time.Minute)
		require.Len(t, h.snapshot().dialTimes, dialed)
		due, _ = src.NextTrial(source.Reachability, time.Now())
		require.Zero(t, due, "not suspect")
		makeSuspect(src)
		require.True(t, src.StartWatch(source.Reachability, time.Now()), "the watch has ended")
	})
}

// makeSuspect records failures at as many routes as make a source suspect.
func makeSuspect(src *source.Source) {
	for i := range 5 {
		src.RecordConnect(false, false, fmt.Sprint(i), time.Now())
	}
}

// watchers counts the goroutines that watch blocklisted sources.
func watchers() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".watch.func1(")
}

// TestQuarantinedSourceHasOneWatcher: a source that is up and blocklisted again within a minute of its trial
// connection's time is watched once.
func TestQuarantinedSourceHasOneWatcher(t *testing.T) {
	withTestNode(t, testTable, nil, nil, func(b *testNode) {
		src := b.prober.sources.List[0]
		list := func() {
			for i := range blocklistReports {
				src.AddBlocklistReport(fmt.Sprint(i), time.Now().Add(24*time.Hour), source.DelistingInterval,
					time.Now())
			}
			b.prober.quarantineEverywhere(src)
		}
		list()
		time.Sleep(source.DelistingInterval / 2)
		require.True(t, src.LeaveQuarantine(time.Now()))
		time.Sleep(source.DelistingInterval/2 + source.TrialCheckInterval/2)
		list()
		time.Sleep(2 * source.DelistingInterval)
		require.Equal(t, 1, watchers())
	})
}

// TestFailureIsConfirmedAtSpeedupZero: at speed-up 0 too the second refusal comes before the first is forgotten; a host
// that closes before its banner has refused.
func TestFailureIsConfirmedAtSpeedupZero(t *testing.T) {
	for _, hangsUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs up %v", hangsUp), func(t *testing.T) {
			dials := 0
			refuse := func(c *Config) {
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					dials++
					time.Sleep(time.Millisecond)
					if !hangsUp {
						return inner(ctx, local, network, address)
					}
					ours, theirs := net.Pipe()
					return ours, theirs.Close()
				}
			}
			withTestNode(t, "speedup = 0\n"+testTable, refuse, map[string]*fakeServer{"mx.a.example": {down: true}},
				func(b *testNode) {
					rows := b.rows(mxA, "ann@a.example")
					got := b.verify(time.Minute, rows...)[rows[0].Number]
					require.Equal(t, wire.Settled, got.Outcome)
					require.Equal(t, "UNKNOWN connection_failed", verdictText(got.Verdict))
					require.LessOrEqual(t, dials, 3)
				})
		})
	}
}

// TestReachabilityTrialHasNoRecipient: a reachability trial at a host that has refused its control sends no recipient,
// and ends at once.
func TestReachabilityTrialHasNoRecipient(t *testing.T) {
	var blocks atomic.Bool
	h := &fakeServer{rcpt: func(local string) string {
		if blocks.Load() {
			return "550 5.1.1 User unknown"
		}
		return acceptsOnly("ann")(local)
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		blocks.Store(true)
		require.Equal(t, engine.Unknown, b.single(time.Minute, mxA, "bob@a.example").Status, "the control is refused")
		asked, dialed := h.count("RCPT"), len(h.snapshot().dialTimes)
		src := b.prober.sources.List[0]
		makeSuspect(src)
		b.prober.watch(src, source.Reachability)
		time.Sleep(10 * time.Second)
		require.Greater(t, len(h.snapshot().dialTimes), dialed)
		require.Zero(t, h.snapshot().open)
		require.Equal(t, asked, h.count("RCPT"))
	})
}
