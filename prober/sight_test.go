package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// TestOperatorEndsAQuarantine: who looks sees why a lane rests, and ends it; a restart does not bring it back.
func TestOperatorEndsAQuarantine(t *testing.T) {
	table := labTable + `
[provider.limits]
refusals_per_hour = 100
[[provider.rule]]
id = "away"
code = "554"
text = ["stay away"]
meaning = "blocked"
blame = "us"
action = "quarantine"
for = "4h"
`
	away := true
	h := &host{rcpt: func(to string) string {
		if away {
			return "554 stay away with your " + to
		}
		return "550 5.1.1 unknown"
	}}
	mx := []string{"mx.big.example"}
	inLab(t, table, nil, map[string]*host{mx[0]: h}, func(b *lab) {
		require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, mx, "zoe@a.example")))
		lanes := b.prober.Lanes()
		require.Len(t, lanes, 1)
		l := lanes[0]
		require.Equal(t, "quarantined", l.State)
		require.Equal(t, "stay away with your <address>", l.Reply)
		require.Equal(t, mx[0], l.Host)
		require.Contains(t, l.Rule, "away")
		require.Equal(t, 4*time.Hour, l.Until.Sub(l.Since).Round(time.Hour))
		require.False(t, b.prober.Release(l.Egress, "another"))
		require.True(t, b.prober.Release(l.Egress, l.Route))
		require.False(t, b.prober.Release(l.Egress, l.Route), "once")
		away = false
		require.Equal(t, "idle", b.prober.Lanes()[0].State)
		require.Equal(t, "INVALID mailbox_not_found", spell(b.single(5*time.Second, mx, "zoe@a.example")))
		require.NotZero(t, b.prober.Lanes()[0].Refusals.Used, "what was used stays used")
		b.stop()
		b.start(nil)
		require.Equal(t, "INVALID mailbox_not_found", spell(b.single(5*time.Second, mx, "ann@a.example")))
	})
}

func TestTracesAreAskedFor(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		b.verify(time.Minute, b.rows(mxa, "ann@a.example", "zed@a.example", "yan@a.example")...)
		ask := func(q wire.Query) []wire.Trace {
			found, err := b.prober.Traces(q)
			require.NoError(t, err)
			return found
		}
		require.Len(t, ask(wire.Query{}), 3)
		require.Len(t, ask(wire.Query{Limit: 2}), 2)
		refused := ask(wire.Query{Status: "INVALID"})
		require.Len(t, refused, 2)
		require.NotEmpty(t, refused[0].Source)
		require.Len(t, ask(wire.Query{Email: "Zed@A.example"}), 1)
		require.Empty(t, ask(wire.Query{Provider: "nobody"}))
		_, err := b.prober.Traces(wire.Query{Email: "zed"})
		require.Error(t, err)
	})
}

// TestEverywhereIsALaneOfItsOwn: an identity that rests everywhere is shown as all its routes, and let go as such.
func TestEverywhereIsALaneOfItsOwn(t *testing.T) {
	e := &egress{name: "e", votes: map[string]time.Time{}}
	now := time.Now()
	for _, r := range []string{"a", "b", "c"} {
		e.vote(r, now.Add(time.Hour), canaryRest, now)
	}
	shown := e.show(nil, now)
	require.Len(t, shown, 1)
	require.Empty(t, shown[0].Route)
	require.True(t, e.release(now))
	require.Empty(t, e.show(nil, now))
	require.False(t, e.vote("a", now.Add(time.Hour), canaryRest, now), "votes begin anew")
}

// TestReleaseOfASourceEndsItsListedLanes: what rests for blocklists alone goes on with the source that an operator lets go; what a
// receiver said for itself holds.
func TestReleaseOfASourceEndsItsListedLanes(t *testing.T) {
	listed, hosts := "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org", map[string]*host{}
	names := []string{"mx.a.example", "mx.b.example", "mx.c.example"}
	for _, name := range names {
		hosts[name] = &host{banner: listed}
	}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		for _, name := range names {
			require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, []string{name}, "zoe@"+name[3:])))
		}
		lanes := b.prober.Lanes()
		require.Len(t, lanes, 4, "the source as all its routes, and three lanes")
		own := b.prober.lane(t, names[2])
		own.mu.Lock()
		own.listed = false // as if it had spoken for itself
		own.mu.Unlock()
		require.True(t, b.prober.Release(lanes[0].Egress, ""))
		rest := 0
		for _, l := range b.prober.Lanes() {
			require.NotEmpty(t, l.Route, "the source rests no more")
			if l.State == "quarantined" {
				require.Equal(t, names[2], l.Route)
				rest++
			}
		}
		require.Equal(t, 1, rest)
		require.False(t, b.prober.Release(lanes[0].Egress, ""), "once")
	})
}

// lane finds the lane of a route.
func (p *Prober) lane(t *testing.T, route string) *lane {
	for _, l := range p.allLanes() {
		if l.key.route == route {
			return l
		}
	}
	require.Fail(t, "no lane", route)
	return nil
}
