package prober

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/source"
)

// TestTrialWithoutAHostIsReturned: a name server's silence says nothing about lists, so another trial connection goes
// soon after.
func TestTrialWithoutAHostIsReturned(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	h := func() *fakeServer {
		return &fakeServer{rcpt: func(string) string {
			if listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.r0.example": h(), "mx.r1.example": h(),
		"mx.r2.example": h()}, func(b *testNode) {
		for i := range blocklistReports {
			require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second,
				[]string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u@r%d.example", i))))
		}
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, []string{"mx.r0.example"},
			"v@r0.example")))
		src := b.prober.sources.List[0]
		time.Sleep(source.DelistingInterval - time.Minute)
		b.dnsFails.Store(true)
		listed.Store(false)
		time.Sleep(10 * time.Minute)
		require.True(t, src.Quarantined(time.Now()))
		b.dnsFails.Store(false)
		time.Sleep(5 * time.Minute)
		require.False(t, src.Quarantined(time.Now()))
	})
}

// TestDelistingTrialNeedsNoRows: a receiver that refused the source as blocklisted is asked about a decoy each hour
// once rows were returned, and not before.
func TestDelistingTrialNeedsNoRows(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	hosts, asked := map[string]*fakeServer{}, atomic.Int32{}
	for i := range 4 {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &fakeServer{rcpt: func(string) string {
			asked.Add(1)
			if listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		ask := func(i int) string {
			return verdictText(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)},
				fmt.Sprintf("u%d@r%d.example", asked.Load(), i)))
		}
		for i := range blocklistReports {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		require.EqualValues(t, blocklistReports, asked.Load())
		time.Sleep(2*source.DelistingInterval + time.Minute)
		require.EqualValues(t, blocklistReports, asked.Load(), "nobody was to be asked")

		require.Equal(t, "UNKNOWN blocked", ask(0), "the canary")
		require.Equal(t, "UNKNOWN blocked", ask(3), "one it is")
		require.EqualValues(t, blocklistReports+1, asked.Load())
		time.Sleep(source.DelistingInterval + time.Minute)
		require.EqualValues(t, blocklistReports+2, asked.Load(), "a decoy")
		require.Equal(t, "UNKNOWN blocked", ask(3))
		listed.Store(false)
		time.Sleep(source.DelistingInterval + time.Minute)
		require.EqualValues(t, blocklistReports+3, asked.Load())
		require.Equal(t, "INVALID mailbox_not_found", ask(3), "it is off the lists")
	})
}

// TestBlocklistQuarantineSurvivesARestart: with its cause. A receiver that caused it is still tried, and when the
// source is off the lists, those that were not asked since the restart are asked again, too.
func TestBlocklistQuarantineSurvivesARestart(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	hosts := map[string]*fakeServer{}
	for i := range blocklistReports {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &fakeServer{rcpt: func(string) string {
			if listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		ask := func(i int) string {
			return verdictText(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)},
				fmt.Sprintf("u%d@r%d.example", b.lastRow.Load(), i)))
		}
		for i := range blocklistReports {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		b.stop()
		b.start(nil)
		listed.Store(false)
		require.Equal(t, "UNKNOWN blocked", ask(0), "a restart does not forgive")
		time.Sleep(source.DelistingInterval + 5*time.Minute)
		require.False(t, b.prober.sources.List[0].Quarantined(time.Now()), "its first receiver was tried")
		for i := range blocklistReports {
			require.Equal(t, "INVALID mailbox_not_found", ask(i))
		}

		listed.Store(true) // a report of before a restart counts with those that come after it
		require.Equal(t, "UNKNOWN blocked", ask(0))
		require.Equal(t, "UNKNOWN blocked", ask(1))
		b.stop()
		b.start(nil)
		require.Equal(t, "UNKNOWN blocked", ask(0))
		require.Equal(t, "UNKNOWN blocked", ask(1))
		require.False(t, b.prober.sources.List[0].Quarantined(time.Now()))
		require.Equal(t, "UNKNOWN blocked", ask(2))
		require.True(t, b.prober.sources.List[0].Quarantined(time.Now()))
	})
}

// TestQuarantineNamesItsReceiver in the log: by its mail hosts where it is no known provider.
func TestQuarantineNamesItsReceiver(t *testing.T) {
	var log bytes.Buffer
	h := &fakeServer{rcpt: func(string) string {
		return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
	}}
	keepLog := func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	withTestNode(t, testTable, keepLog, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, mxA, "ann@a.example")))
	})
	require.Contains(t, log.String(), `msg="receiver quarantined an egress source" route=mx.a.example`)
}

// TestQuarantineIsLoggedOnce, although the receiver refuses each recipient that is under way.
func TestQuarantineIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := &fakeServer{rcpt: func(local string) string {
		if local == "first" {
			return "550 5.1.1 no such user"
		}
		return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
	}}
	keepLog := func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	withTestNode(t, testTable, keepLog, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(time.Minute, mxA, "first@a.example")))
		b.verify(time.Minute, b.rows(mxA, "ann@a.example", "bob@a.example", "eve@a.example")...)
		require.Greater(t, h.snapshot().largestTransaction, 1)
	})
	require.Equal(t, 1, strings.Count(log.String(), `msg="receiver quarantined an egress source"`), log.String())
}

// A reachability trial is no caller's row, but it does not go to a receiver that has quarantined the source either.
func TestNoReachTrialWhereQuarantined(t *testing.T) {
	h := &fakeServer{rcpt: func(local string) string {
		if local == "quarantines" {
			return "550 5.7.1 You are not welcome here, your IP address has a poor reputation"
		}
		return acceptsOnly("ann")(local)
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		q := b.prober.allQueues()[0]
		try := func(to *source.Target) bool {
			return b.prober.queueOf(&to.Route, q.Source, time.Now()).SendReachTrial(to, time.Now())
		}
		to := &source.Target{Route: engine.Route{Key: q.Key.Route, Provider: q.Provider, Hosts: mxA}}
		require.True(t, try(to))
		time.Sleep(time.Minute)
		synctest.Wait() // the sweep of this minute is over
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(time.Minute, mxA, "quarantines@a.example")))
		dialed := len(h.snapshot().dialTimes)
		require.False(t, try(to))
		time.Sleep(time.Minute)
		require.Len(t, h.snapshot().dialTimes, dialed)
	})
}
