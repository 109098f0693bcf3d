package prober

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func twoSources(t *testing.T) sourceSet {
	all, err := newSourceSet([]Source{{Local: netip.MustParseAddr("192.0.2.1"), EHLO: "a.us.example"}, {Local: netip.MustParseAddr("192.0.2.2"), EHLO: "b.us.example"}}, "")
	require.NoError(t, err)
	return all
}

// TestWideProviderSkipsQuarantinedSources: a source that is quarantined at a wide provider is skipped there and nowhere else.
// If all are, the first choice is asked and gives its own answer.
func TestWideProviderSkipsQuarantinedSources(t *testing.T) {
	now := time.Now()
	all := twoSources(t)
	wide, narrow := &engine.Route{Key: "w", Provider: &engine.Provider{ID: "w", Kind: engine.KindWide}}, &engine.Route{Key: "n", Provider: &engine.Provider{ID: "n"}}
	a, err := engine.Parse("ann@x.example")
	require.NoError(t, err)
	first := all.choose(wide, a, "", now)
	first.quarantineAt("w", now.Add(time.Hour))
	second := all.choose(wide, a, "", now)
	require.NotSame(t, first, second)
	require.Same(t, first, all.choose(wide, a, first.name, now), "who is pinned is asked")
	require.Same(t, all.choose(narrow, a, "", now), all.choose(narrow, a, "", now.Add(time.Minute)))
	require.True(t, all.otherAvailable(wide.Provider, first, now))
	require.False(t, all.otherAvailable(narrow.Provider, first, now), "a narrow route has one source")
	require.Same(t, first, all.choose(wide, a, "", now.Add(time.Hour)), "its time is over")
	second.quarantineAt("w", now.Add(time.Hour))
	require.Same(t, first, all.choose(wide, a, "", now), "nobody is wanted: it says so itself")
	require.False(t, all.otherAvailable(wide.Provider, first, now))
}

// tryTime is when a connection may be tried.
func (src *source) tryTime(route string, isReachTrial bool, again time.Duration, now time.Time) time.Time {
	wait, _ := src.tryAt(route, isReachTrial, again, now)
	return wait
}

// TestTrialEndsABlocklistQuarantine: one connection in a while, and an end to it when one is answered.
func TestTrialEndsABlocklistQuarantine(t *testing.T) {
	now := time.Now()
	src := &source{blocklistReports: map[string]time.Time{}}
	require.Zero(t, src.tryTime("mx.a.example", false, delistingTrialInterval, now), "it does not rest")
	for _, r := range []string{"a", "b", "c"} {
		src.addBlocklistReport(r, now.Add(24*time.Hour), delistingTrialInterval, now)
	}
	require.True(t, src.awaitingTrial(now))
	require.Equal(t, now.Add(delistingTrialInterval), src.tryTime("mx.a.example", false, delistingTrialInterval, now))
	later := now.Add(delistingTrialInterval)
	require.False(t, src.awaitingTrial(later))
	require.True(t, src.quarantined(later))
	require.Zero(t, src.tryTime("mx.a.example", false, delistingTrialInterval, later), "the canary")
	require.Equal(t, later.Add(delistingTrialInterval), src.tryTime("mx.a.example", false, delistingTrialInterval, later), "and no other")
	require.True(t, src.leaveQuarantine(later))
	require.False(t, src.quarantined(later))
	require.False(t, src.leaveQuarantine(later), "once")
}

// TestRowsLeaveTheTrialToTheDecoy: a probe at a host that never answers, the last delisting trial included, does not take the
// next trial connection from the delisting trial that is due; a moment later it may.
func TestRowsLeaveTheTrialToTheDecoy(t *testing.T) {
	now, again := time.Now(), time.Hour
	src := &source{quarantinedUntil: now.Add(24 * time.Hour), trialAt: now, watched: true}
	src.lastBlocked = delistingTrial{domain: "a.example", route: engine.Route{Key: "mx.a.example"}}
	for _, key := range []string{"dead.example", "known"} {
		src.blocklistedBy = append(src.blocklistedBy, delistingTrial{domain: key, route: engine.Route{Key: key}})
	}
	require.Equal(t, "dead.example", src.nextDelistingTrial().route.Key)
	require.Equal(t, now.Add(trialGrace), src.tryTime("mx.a.example", false, again, now))
	require.Zero(t, src.tryTime("dead.example", false, again, now))
	now = now.Add(again)
	require.Equal(t, now.Add(trialGrace), src.tryTime("dead.example", false, again, now), "before the next errand is known")
	require.Equal(t, "known", src.nextDelistingTrial().route.Key)
	require.Equal(t, now.Add(trialGrace), src.tryTime("dead.example", false, again, now), "and after")
	require.Zero(t, src.tryTime("mx.a.example", false, again, now.Add(trialGrace)), "the errand could not be sent")
	src.returnTrial(src.trialAt, "mx.a.example", now.Add(time.Minute))
	require.Zero(t, src.tryTime("mx.a.example", false, again, now.Add(time.Minute)), "its address had no room")
}

// TestBlocklistedSourceSendsNoReachTrial: a blocklisted source that reaches no host sends no reachability trial, and its trial
// connection is used once, when it starts.
func TestBlocklistedSourceSendsNoReachTrial(t *testing.T) {
	now := time.Now()
	src := &source{blocklistReports: map[string]time.Time{}}
	for i := range downFailures {
		src.health.recordConnect(false, string(rune('a'+i)), now)
	}
	src.health.recordReached(reachTrial{host: "mx.a.example"})
	for _, r := range []string{"a", "b", "c"} {
		src.addBlocklistReport(r, now.Add(24*time.Hour), delistingTrialInterval, now)
	}
	later := now.Add(delistingTrialInterval)
	require.Equal(t, later, src.tryTime("mx.a.example", false, delistingTrialInterval, later.Add(-time.Second)))
	require.Equal(t, now.Add(24*time.Hour), src.tryTime("mx.a.example", true, delistingTrialInterval, later), "a knock proves nothing to lists")
	require.Zero(t, src.tryTime("mx.a.example", false, delistingTrialInterval, later))
	require.Equal(t, later.Add(delistingTrialInterval), src.tryTime("mx.a.example", false, delistingTrialInterval, later))
	require.Zero(t, src.tryTime("mx.a.example", true, delistingTrialInterval, now.Add(24*time.Hour)))
}

// TestRowsDoNotDelayATrialOfADownSource: a row that leaves the trial connection to the delisting trial does not use up the one
// that a down source has in half a minute.
func TestRowsDoNotDelayATrialOfADownSource(t *testing.T) {
	now := time.Now()
	src := &source{quarantinedUntil: now.Add(24 * time.Hour), trialAt: now.Add(delistingTrialInterval), watched: true, trialRoute: "known", lastBlocked: delistingTrial{domain: "a.example"}}
	for i := range downFailures {
		src.health.recordConnect(false, string(rune('a'+i)), now)
	}
	later := now.Add(delistingTrialInterval)
	require.Equal(t, later.Add(trialGrace), src.tryTime("mx.a.example", false, delistingTrialInterval, later))
	require.Zero(t, src.tryTime("known", false, delistingTrialInterval, later))
}

// TestOnlyTheLastTrialIsReturned: a trial that was delayed until its source was up and blocklisted again does not take the
// place of the next.
func TestOnlyTheLastTrialIsReturned(t *testing.T) {
	now := time.Now()
	list := func(src *source) {
		for _, r := range []string{"a", "b", "c"} {
			src.addBlocklistReport(r, now.Add(24*time.Hour), delistingTrialInterval, now)
		}
	}
	src := &source{blocklistReports: map[string]time.Time{}}
	list(src)
	now = now.Add(delistingTrialInterval)
	wait, nextTrial := src.tryAt("mx.a.example", false, delistingTrialInterval, now)
	require.Zero(t, wait)
	require.Equal(t, now.Add(delistingTrialInterval), nextTrial)
	now = now.Add(time.Minute)
	require.True(t, src.leaveQuarantine(now))
	list(src)
	src.returnTrial(nextTrial, "mx.a.example", now)
	require.Equal(t, now.Add(delistingTrialInterval), src.tryTime("mx.a.example", false, delistingTrialInterval, now))
}

// TestTrialWithoutAHostIsReturned: a name server's silence says nothing about lists, so another trial connection goes soon after.
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
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.r0.example": h(), "mx.r1.example": h(), "mx.r2.example": h()}, func(b *testNode) {
		for i := range reportsToQuarantine {
			require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u@r%d.example", i))))
		}
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, []string{"mx.r0.example"}, "v@r0.example")))
		src := b.prober.sources.list[0]
		time.Sleep(delistingTrialInterval - time.Minute)
		b.dnsFails.Store(true)
		listed.Store(false)
		time.Sleep(10 * time.Minute)
		require.True(t, src.quarantined(time.Now()))
		b.dnsFails.Store(false)
		time.Sleep(5 * time.Minute)
		require.False(t, src.quarantined(time.Now()))
	})
}

// TestDelistingTrialNeedsNoRows: a receiver that refused the source as blocklisted is asked about a decoy each hour once rows
// were returned, and not before.
func TestDelistingTrialNeedsNoRows(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	hosts, asked := map[string]*fakeServer{}, atomic.Int32{}
	for i := range 4 {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &fakeServer{rcpt: func(string) string {
			if asked.Add(1); listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		ask := func(i int) string {
			return verdictText(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u%d@r%d.example", asked.Load(), i)))
		}
		for i := range reportsToQuarantine {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		require.EqualValues(t, reportsToQuarantine, asked.Load())
		time.Sleep(2*delistingTrialInterval + time.Minute)
		require.EqualValues(t, reportsToQuarantine, asked.Load(), "nobody was to be asked")

		require.Equal(t, "UNKNOWN blocked", ask(0), "the canary")
		require.Equal(t, "UNKNOWN blocked", ask(3), "one it is")
		require.EqualValues(t, reportsToQuarantine+1, asked.Load())
		time.Sleep(delistingTrialInterval + time.Minute)
		require.EqualValues(t, reportsToQuarantine+2, asked.Load(), "a decoy")
		require.Equal(t, "UNKNOWN blocked", ask(3))
		listed.Store(false)
		time.Sleep(delistingTrialInterval + time.Minute)
		require.EqualValues(t, reportsToQuarantine+3, asked.Load())
		require.Equal(t, "INVALID mailbox_not_found", ask(3), "it is off the lists")
	})
}

// A reachability trial is no caller's row, but it does not go to a receiver that has quarantined the source either.
func TestNoReachTrialWhereQuarantined(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		q := b.prober.allQueues()[0]
		to := reachTrial{delistingTrial{route: engine.Route{Key: q.key.route, Provider: q.provider}}, "mx.a.example"}
		require.True(t, b.prober.sendReachTrial(q.source, to))
		time.Sleep(time.Minute)
		synctest.Wait() // the sweep of this minute is over
		dialed := len(h.snapshot().dialTimes)
		q = b.prober.queueOf(&to.route, q.source, time.Now()) // an idle one may have been forgotten
		q.mu.Lock()
		q.budget.QuarantinedUntil = time.Now().Add(time.Hour)
		q.mu.Unlock()
		require.False(t, b.prober.sendReachTrial(q.source, to))
		time.Sleep(time.Minute)
		require.Len(t, h.snapshot().dialTimes, dialed)
	})
}
