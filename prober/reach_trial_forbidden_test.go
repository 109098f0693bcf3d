package prober

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/source"
)

// suppressList is a suppress list that a test changes.
type suppressList struct{ atomic.Pointer[string] }

func (w *suppressList) config(c *Config) {
	c.Suppressed = func(domain string, hosts []string) bool {
		name := w.Load()
		return name != nil && (domain == *name || slices.Contains(hosts, *name))
	}
}

// disabledTable is the test table after an operator has disabled probing of a provider.
func disabledTable(t *testing.T, mx string) *engine.Table {
	off, err := engine.DefaultTable().Override([]byte(testTable +
		fmt.Sprintf("[[provider]]\nid = \"off\"\nname = \"Off\"\nmx = [%q]\nprobe = \"off\"\nsource = \"an operator\"\ndate = \"2026-01-01\"\n", mx)))
	require.NoError(t, err)
	return off
}

// TestNoReachabilityTrialWhereProbingIsForbidden: a suppression or the provider table excludes a reachability trial as
// it excludes a row, even if it came after the host was reached.
func TestNoReachabilityTrialWhereProbingIsForbidden(t *testing.T) {
	for name, forbid := range map[string]func(*testNode, *suppressList){
		"domain":   func(_ *testNode, w *suppressList) { w.Store(new("a.example")) },
		"host":     func(_ *testNode, w *suppressList) { w.Store(new("mx.a.example")) },
		"provider": func(b *testNode, _ *suppressList) { b.prober.SetTable(disabledTable(t, "mx.a.example")) },
	} {
		t.Run(name, func(t *testing.T) {
			var w suppressList
			h := &fakeServer{rcpt: acceptsOnly("ann")}
			withTestNode(t, testTable, w.config, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
				src := b.prober.sources.List[0]
				var known source.Target
				trials := func() int { // of a source that is suspect
					time.Sleep(time.Minute + time.Second) // idle queues are forgotten on the minute
					dialed := len(h.snapshot().dialTimes)
					makeSuspect(src)
					_, known = src.NextTrial(source.Reachability, time.Now())
					b.prober.watch(src, source.Reachability)
					time.Sleep(time.Minute)
					return len(h.snapshot().dialTimes) - dialed
				}
				require.Equal(t, 1, trials())
				require.Equal(t, "a.example", known.Domain)
				first := known
				require.Equal(t, 1, trials())
				require.Equal(t, first, known, "a trial records the target for which its host was reached")
				forbid(b, &w)
				require.Zero(t, trials())
				require.Equal(t, first, known)
				_, known = src.NextTrial(source.Reachability, time.Now())
				require.Empty(t, known, "others do not wait for that trial")
			})
		})
	}
}

// TestDelistingTrialsSkipForbiddenTargets: the trial connection of a blocklisted source goes to another receiver that
// refused it.
func TestDelistingTrialsSkipForbiddenTargets(t *testing.T) {
	var w suppressList
	hosts := map[string]*fakeServer{}
	for i := range 4 {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &fakeServer{rcpt: func(string) string {
			return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
		}}
	}
	withTestNode(t, testTable, w.config, hosts, func(b *testNode) {
		saw := func(i int) int { return hosts[fmt.Sprintf("mx.r%d.example", i)].count("RCPT") }
		ask := func(i int) string {
			return verdictText(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)},
				fmt.Sprintf("u@r%d.example", i)))
		}
		for i := range blocklistReports {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		require.Equal(t, "UNKNOWN blocked", ask(3), "there is work to miss")
		w.Store(new("r0.example"))
		off := disabledTable(t, "mx.r1.example")
		b.prober.SetTable(off)
		time.Sleep(2*source.DelistingInterval + 5*time.Minute)
		require.Equal(t, 1, saw(0), "suppressed")
		require.Equal(t, 1, saw(1), "off")
		require.Equal(t, 3, saw(2))
		require.Zero(t, saw(3))
	})
}

// TestReplyToAReachabilityTrialCounts: what a host says to a reachability trial counts at its queue as what it says to
// a row.
func TestReplyToAReachabilityTrialCounts(t *testing.T) {
	for _, x := range []struct{ banner, state string }{
		{"554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org", "quarantined"},
		{"421 4.7.0 Too many connections from your host, try again later", "paused"},
	} {
		t.Run(x.state, func(t *testing.T) {
			h := &fakeServer{rcpt: acceptsOnly("ann")}
			withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
				src := b.prober.sources.List[0]
				time.Sleep(time.Minute + time.Second) // idle queues are forgotten on the minute
				h.withLock(func() { h.banner = x.banner })
				makeSuspect(src)
				b.prober.watch(src, source.Reachability)
				time.Sleep(time.Second)
				seen := b.prober.ReadyQueues()
				require.Len(t, seen, 1)
				require.Equal(t, x.state, seen[0].State)
				require.Equal(t, x.banner[4:], seen[0].Reply)
				dialed := len(h.snapshot().dialTimes)
				require.Equal(t, engine.Unknown, b.single(time.Second, mxA, "bob@a.example").Status)
				require.Len(t, h.snapshot().dialTimes, dialed)
			})
		})
	}
}
