package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

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
		src.Health.recordConnect(false, string(rune('a'+i)), now)
	}
	src.Health.recordReached(reachTrial{host: "mx.a.example"})
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
		src.Health.recordConnect(false, string(rune('a'+i)), now)
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

// TestDelistingTrialsTakeTurns: known providers are asked first, and no receiver is left out.
func TestDelistingTrialsTakeTurns(t *testing.T) {
	known, unlisted := &engine.Provider{ID: "known"}, &engine.Provider{}
	src := &source{lastBlocked: delistingTrial{domain: "missed.example"}}
	for _, o := range []delistingTrial{{route: engine.Route{Key: "mx.a.example", Provider: unlisted}, domain: "a.example"},
		{route: engine.Route{Key: "known", Provider: known}, domain: "b.example"}, {route: engine.Route{Key: "mx.c.example", Provider: unlisted}, domain: "c.example"}} {
		src.recordBlocklistedBy(o)
	}
	var asked []string
	for range 4 {
		asked = append(asked, src.nextDelistingTrial().domain)
	}
	require.Equal(t, []string{"b.example", "a.example", "c.example", "b.example"}, asked)
}
