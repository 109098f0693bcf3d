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

func twoSources(t *testing.T) egresses {
	all, err := newEgresses([]Identity{{Local: netip.MustParseAddr("192.0.2.1"), EHLO: "a.us.example"}, {Local: netip.MustParseAddr("192.0.2.2"), EHLO: "b.us.example"}}, "")
	require.NoError(t, err)
	return all
}

// TestWideProviderIsAskedFromWhoIsWanted: a source that rests at a wide provider is passed over there and nowhere else; where none is
// left the answer is that one's own.
func TestWideProviderIsAskedFromWhoIsWanted(t *testing.T) {
	now := time.Now()
	all := twoSources(t)
	wide, narrow := &engine.Route{Key: "w", Provider: &engine.Provider{ID: "w", Kind: engine.KindWide}}, &engine.Route{Key: "n", Provider: &engine.Provider{ID: "n"}}
	a, err := engine.Parse("ann@x.example")
	require.NoError(t, err)
	first := all.choose(wide, a, "", now)
	first.restAt("w", now.Add(time.Hour))
	second := all.choose(wide, a, "", now)
	require.NotSame(t, first, second)
	require.Same(t, first, all.choose(wide, a, first.name, now), "who is pinned is asked")
	require.Same(t, all.choose(narrow, a, "", now), all.choose(narrow, a, "", now.Add(time.Minute)))
	require.True(t, all.others(wide.Provider, first, now))
	require.False(t, all.others(narrow.Provider, first, now), "a narrow route has one source")
	require.Same(t, first, all.choose(wide, a, "", now.Add(time.Hour)), "its time is over")
	second.restAt("w", now.Add(time.Hour))
	require.Same(t, first, all.choose(wide, a, "", now), "nobody is wanted: it says so itself")
	require.False(t, all.others(wide.Provider, first, now))
}

// triesAt is when a connection may be tried.
func (e *egress) triesAt(route string, knocks bool, again time.Duration, now time.Time) time.Time {
	wait, _ := e.tryAt(route, knocks, again, now)
	return wait
}

// TestCanaryOfAListedSource: one connection in a while, and an end to it when one is answered.
func TestCanaryOfAListedSource(t *testing.T) {
	now := time.Now()
	e := &egress{votes: map[string]time.Time{}}
	require.Zero(t, e.triesAt("mx.a.example", false, canaryRest, now), "it does not rest")
	for _, r := range []string{"a", "b", "c"} {
		e.vote(r, now.Add(24*time.Hour), canaryRest, now)
	}
	require.True(t, e.resting(now))
	require.Equal(t, now.Add(canaryRest), e.triesAt("mx.a.example", false, canaryRest, now))
	later := now.Add(canaryRest)
	require.False(t, e.resting(later))
	require.True(t, e.rested(later))
	require.Zero(t, e.triesAt("mx.a.example", false, canaryRest, later), "the canary")
	require.Equal(t, later.Add(canaryRest), e.triesAt("mx.a.example", false, canaryRest, later), "and no other")
	require.True(t, e.well(later))
	require.False(t, e.rested(later))
	require.False(t, e.well(later), "once")
}

// TestRowsLeaveTheCanaryToTheErrand: who waits at a host that answers nobody, be it the last errand itself, does not take the next
// canary from the errand that is due; a moment later it may.
func TestRowsLeaveTheCanaryToTheErrand(t *testing.T) {
	now, again := time.Now(), time.Hour
	e := &egress{rests: now.Add(24 * time.Hour), canary: now, tended: true}
	e.miss = errand{domain: "a.example", route: engine.Route{Key: "mx.a.example"}}
	for _, key := range []string{"dead.example", "known"} {
		e.named = append(e.named, errand{domain: key, route: engine.Route{Key: key}})
	}
	require.Equal(t, "dead.example", e.nextErrand().route.Key)
	require.Equal(t, now.Add(canaryGrace), e.triesAt("mx.a.example", false, again, now))
	require.Zero(t, e.triesAt("dead.example", false, again, now))
	now = now.Add(again)
	require.Equal(t, now.Add(canaryGrace), e.triesAt("dead.example", false, again, now), "before the next errand is known")
	require.Equal(t, "known", e.nextErrand().route.Key)
	require.Equal(t, now.Add(canaryGrace), e.triesAt("dead.example", false, again, now), "and after")
	require.Zero(t, e.triesAt("mx.a.example", false, again, now.Add(canaryGrace)), "the errand could not be sent")
	e.unspent(e.canary, "mx.a.example", now.Add(time.Minute))
	require.Zero(t, e.triesAt("mx.a.example", false, again, now.Add(time.Minute)), "its address had no room")
}

// TestCanariesAreOfOneKind: a listed source that reaches nobody knocks nowhere, and its canary is spent once, when it goes.
func TestCanariesAreOfOneKind(t *testing.T) {
	now := time.Now()
	e := &egress{votes: map[string]time.Time{}}
	for i := range sickFails {
		e.health.connected(false, string(rune('a'+i)), now)
	}
	e.health.met(knock{host: "mx.a.example"})
	for _, r := range []string{"a", "b", "c"} {
		e.vote(r, now.Add(24*time.Hour), canaryRest, now)
	}
	later := now.Add(canaryRest)
	require.Equal(t, later, e.triesAt("mx.a.example", false, canaryRest, later.Add(-time.Second)))
	require.Equal(t, now.Add(24*time.Hour), e.triesAt("mx.a.example", true, canaryRest, later), "a knock proves nothing to lists")
	require.Zero(t, e.triesAt("mx.a.example", false, canaryRest, later))
	require.Equal(t, later.Add(canaryRest), e.triesAt("mx.a.example", false, canaryRest, later))
	require.Zero(t, e.triesAt("mx.a.example", true, canaryRest, now.Add(24*time.Hour)))
}

// TestNobodyDelaysTheErrandOfASickSource: who leaves the canary to the errand does not spend the one that a sick source has in half a
// minute.
func TestNobodyDelaysTheErrandOfASickSource(t *testing.T) {
	now := time.Now()
	e := &egress{rests: now.Add(24 * time.Hour), canary: now.Add(canaryRest), tended: true, sent: "known", miss: errand{domain: "a.example"}}
	for i := range sickFails {
		e.health.connected(false, string(rune('a'+i)), now)
	}
	later := now.Add(canaryRest)
	require.Equal(t, later.Add(canaryGrace), e.triesAt("mx.a.example", false, canaryRest, later))
	require.Zero(t, e.triesAt("known", false, canaryRest, later))
}

// TestOnlyTheLastCanaryIsTakenBack: one that was held up until its source was well and listed anew does not take the place of the next.
func TestOnlyTheLastCanaryIsTakenBack(t *testing.T) {
	now := time.Now()
	list := func(e *egress) {
		for _, r := range []string{"a", "b", "c"} {
			e.vote(r, now.Add(24*time.Hour), canaryRest, now)
		}
	}
	e := &egress{votes: map[string]time.Time{}}
	list(e)
	now = now.Add(canaryRest)
	wait, canary := e.tryAt("mx.a.example", false, canaryRest, now)
	require.Zero(t, wait)
	require.Equal(t, now.Add(canaryRest), canary)
	now = now.Add(time.Minute)
	require.True(t, e.well(now))
	list(e)
	e.unspent(canary, "mx.a.example", now)
	require.Equal(t, now.Add(canaryRest), e.triesAt("mx.a.example", false, canaryRest, now))
}

// TestACanaryThatFindsNoHostIsNotSpent: a name server's silence says nothing about lists, so another canary goes soon after.
func TestACanaryThatFindsNoHostIsNotSpent(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	h := func() *host {
		return &host{rcpt: func(string) string {
			if listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	inLab(t, labTable, nil, map[string]*host{"mx.r0.example": h(), "mx.r1.example": h(), "mx.r2.example": h()}, func(b *lab) {
		for i := range votesToRest {
			require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u@r%d.example", i))))
		}
		require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, []string{"mx.r0.example"}, "v@r0.example")))
		e := b.prober.egress.list[0]
		time.Sleep(canaryRest - time.Minute)
		b.nameless.Store(true)
		listed.Store(false)
		time.Sleep(10 * time.Minute)
		require.True(t, e.rested(time.Now()))
		b.nameless.Store(false)
		time.Sleep(5 * time.Minute)
		require.False(t, e.rested(time.Now()))
	})
}

// TestCanaryGoesWithoutRows: who was refused as listed is asked about a decoy each hour once rows were sent home, and not before.
func TestCanaryGoesWithoutRows(t *testing.T) {
	var listed atomic.Bool
	listed.Store(true)
	hosts, asked := map[string]*host{}, atomic.Int32{}
	for i := range 4 {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &host{rcpt: func(string) string {
			if asked.Add(1); listed.Load() {
				return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
			}
			return "550 5.1.1 no such user"
		}}
	}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		ask := func(i int) string {
			return spell(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u%d@r%d.example", asked.Load(), i)))
		}
		for i := range votesToRest {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		require.EqualValues(t, votesToRest, asked.Load())
		time.Sleep(2*canaryRest + time.Minute)
		require.EqualValues(t, votesToRest, asked.Load(), "nobody was to be asked")

		require.Equal(t, "UNKNOWN blocked", ask(0), "the canary")
		require.Equal(t, "UNKNOWN blocked", ask(3), "one it is")
		require.EqualValues(t, votesToRest+1, asked.Load())
		time.Sleep(canaryRest + time.Minute)
		require.EqualValues(t, votesToRest+2, asked.Load(), "a decoy")
		require.Equal(t, "UNKNOWN blocked", ask(3))
		listed.Store(false)
		time.Sleep(canaryRest + time.Minute)
		require.EqualValues(t, votesToRest+3, asked.Load())
		require.Equal(t, "INVALID mailbox_not_found", ask(3), "it is off the lists")
	})
}

// A knock is nobody's row, and yet it is not for a receiver that has sent the source away.
func TestNoKnockWhereTheSourceRests(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		require.Equal(t, "VALID", spell(b.single(time.Minute, mxa, "ann@a.example")))
		l := b.prober.allLanes()[0]
		to := knock{errand{route: engine.Route{Key: l.key.route, Provider: l.provider}}, "mx.a.example"}
		require.True(t, b.prober.knock(l.egress, to))
		time.Sleep(time.Minute)
		synctest.Wait() // the sweep of this minute is over
		dialed := len(h.saw().dialed)
		l = b.prober.laneOf(&to.route, l.egress, time.Now()) // an idle one may have been forgotten
		l.mu.Lock()
		l.pace.rest = time.Now().Add(time.Hour)
		l.mu.Unlock()
		require.False(t, b.prober.knock(l.egress, to))
		time.Sleep(time.Minute)
		require.Len(t, h.saw().dialed, dialed)
	})
}
