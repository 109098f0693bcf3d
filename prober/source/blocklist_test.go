package source

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// tryTime returns the time at which a connection may be tried.
func (src *Source) tryTime(route string, isReachTrial bool, again time.Duration, now time.Time) time.Time {
	wait, _ := src.TryAt(route, isReachTrial, again, now)
	return wait
}

// TestTrialEndsABlocklistQuarantine: one connection in a while, and an end to it when one is answered.
func TestTrialEndsABlocklistQuarantine(t *testing.T) {
	now := time.Now()
	src := &Source{blocklistReports: map[string]time.Time{}}
	require.Zero(t, src.tryTime("mx.a.example", false, DelistingInterval, now), "it does not rest")
	for _, r := range []string{"a", "b", "c"} {
		src.AddBlocklistReport(r, now.Add(24*time.Hour), DelistingInterval, now)
	}
	require.True(t, src.AwaitingTrial(now))
	require.Equal(t, now.Add(DelistingInterval), src.tryTime("mx.a.example", false, DelistingInterval, now))
	later := now.Add(DelistingInterval)
	require.False(t, src.AwaitingTrial(later))
	require.True(t, src.Quarantined(later))
	require.Zero(t, src.tryTime("mx.a.example", false, DelistingInterval, later), "the canary")
	require.Equal(t, later.Add(DelistingInterval), src.tryTime("mx.a.example", false, DelistingInterval, later),
		"and no other")
	require.True(t, src.LeaveQuarantine(later))
	require.False(t, src.Quarantined(later))
	require.False(t, src.LeaveQuarantine(later), "once")
}

// TestRowsLeaveTheTrialToTheDecoy: a probe at a host that never answers, the last delisting trial included, does not
// take the next trial connection from the delisting trial that is due; a moment later it may.
func TestRowsLeaveTheTrialToTheDecoy(t *testing.T) {
	now, again := time.Now(), time.Hour
	src := &Source{breaker: breaker{quarantinedUntil: now.Add(24 * time.Hour)}}
	delisting := &src.trials[Delisting]
	delisting.at, delisting.last = now, Target{Domain: "a.example", Route: engine.Route{Key: "mx.a.example"}}
	for _, key := range []string{"dead.example", "known"} {
		delisting.inTurn = append(delisting.inTurn, Target{Domain: key, Route: engine.Route{Key: key}})
	}
	next := func() string {
		_, to := src.NextTrial(Delisting, now)
		return to.Route.Key
	}
	require.Equal(t, "dead.example", next())
	require.Equal(t, now.Add(TrialGrace), src.tryTime("mx.a.example", false, again, now))
	require.Zero(t, src.tryTime("dead.example", false, again, now))
	now = now.Add(again)
	require.Equal(t, now.Add(TrialGrace), src.tryTime("dead.example", false, again, now),
		"before the next errand is known")
	require.Equal(t, "known", next())
	require.Equal(t, now.Add(TrialGrace), src.tryTime("dead.example", false, again, now), "and after")
	require.Zero(t, src.tryTime("mx.a.example", false, again, now.Add(TrialGrace)), "the errand could not be sent")
	src.ReturnTrial(delisting.at, "mx.a.example", now.Add(time.Minute))
	require.Zero(t, src.tryTime("mx.a.example", false, again, now.Add(time.Minute)), "its address had no room")
}

// TestBlocklistedSourceSendsNoReachTrial: a blocklisted source that reaches no host sends no reachability trial, and
// its trial connection is used once, when it starts.
func TestBlocklistedSourceSendsNoReachTrial(t *testing.T) {
	now := time.Now()
	src := &Source{blocklistReports: map[string]time.Time{}}
	for i := range downFailures {
		src.RecordConnect(false, false, string(rune('a'+i)), now)
	}
	src.RecordReached(Target{Domain: "a.example"})
	for _, r := range []string{"a", "b", "c"} {
		src.AddBlocklistReport(r, now.Add(24*time.Hour), DelistingInterval, now)
	}
	later := now.Add(DelistingInterval)
	require.Equal(t, later, src.tryTime("mx.a.example", false, DelistingInterval, later.Add(-time.Second)))
	require.Equal(t, now.Add(24*time.Hour), src.tryTime("mx.a.example", true, DelistingInterval, later),
		"a knock proves nothing to lists")
	require.Zero(t, src.tryTime("mx.a.example", false, DelistingInterval, later))
	require.Equal(t, later.Add(DelistingInterval), src.tryTime("mx.a.example", false, DelistingInterval, later))
	require.Zero(t, src.tryTime("mx.a.example", true, DelistingInterval, now.Add(24*time.Hour)))
}

// TestRowsDoNotDelayATrialOfADownSource: a row that leaves the trial connection to the delisting trial does not use up
// the one that a down source has in half a minute.
func TestRowsDoNotDelayATrialOfADownSource(t *testing.T) {
	now := time.Now()
	src := &Source{breaker: breaker{quarantinedUntil: now.Add(24 * time.Hour)}}
	src.trials[Delisting] = trials{at: now.Add(DelistingInterval), route: "known", last: Target{Domain: "a.example"}}
	for i := range downFailures {
		src.RecordConnect(false, false, string(rune('a'+i)), now)
	}
	later := now.Add(DelistingInterval)
	require.Equal(t, later.Add(TrialGrace), src.tryTime("mx.a.example", false, DelistingInterval, later))
	require.Zero(t, src.tryTime("known", false, DelistingInterval, later))
}

// TestOnlyTheLastTrialIsReturned: a trial that was delayed until its source was up and blocklisted again does not take
// the place of the next.
func TestOnlyTheLastTrialIsReturned(t *testing.T) {
	now := time.Now()
	list := func(src *Source) {
		for _, r := range []string{"a", "b", "c"} {
			src.AddBlocklistReport(r, now.Add(24*time.Hour), DelistingInterval, now)
		}
	}
	src := &Source{blocklistReports: map[string]time.Time{}}
	list(src)
	now = now.Add(DelistingInterval)
	wait, nextTrial := src.TryAt("mx.a.example", false, DelistingInterval, now)
	require.Zero(t, wait)
	require.Equal(t, now.Add(DelistingInterval), nextTrial)
	now = now.Add(time.Minute)
	require.True(t, src.LeaveQuarantine(now))
	list(src)
	src.ReturnTrial(nextTrial, "mx.a.example", now)
	require.Equal(t, now.Add(DelistingInterval), src.tryTime("mx.a.example", false, DelistingInterval, now))
}

// TestDelistingTrialsTakeTurns: known providers are asked first, and no receiver is left out.
func TestDelistingTrialsTakeTurns(t *testing.T) {
	known, unlisted := &engine.Provider{ID: "known"}, &engine.Provider{}
	now := time.Now()
	src := &Source{breaker: breaker{quarantinedUntil: now.Add(24 * time.Hour)}}
	src.trials[Delisting].last = Target{Domain: "missed.example"}
	for _, o := range []Target{{Route: engine.Route{Key: "mx.a.example", Provider: unlisted}, Domain: "a.example"},
		{Route: engine.Route{Key: "known", Provider: known}, Domain: "b.example"},
		{Route: engine.Route{Key: "mx.c.example", Provider: unlisted}, Domain: "c.example"}} {
		src.RecordBlocklistedBy(o)
	}
	var asked []string
	for range 4 {
		_, to := src.NextTrial(Delisting, now)
		asked = append(asked, to.Domain)
	}
	require.Equal(t, []string{"b.example", "a.example", "c.example", "b.example"}, asked)
}
