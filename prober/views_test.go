package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/source"
	"probity/prober/wire"
)

// TestOperatorEndsAQuarantine: an operator sees why a ready queue is quarantined, and ends it; a restart does not bring
// it back.
func TestOperatorEndsAQuarantine(t *testing.T) {
	table := testTable + `
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
	h := &fakeServer{terse: true, rcpt: func(to string) string {
		if away {
			return "554 stay away with your " + to
		}
		return "550 5.1.1 unknown"
	}}
	mx := []string{"mx.big.example"}
	withTestNode(t, table, nil, map[string]*fakeServer{mx[0]: h}, func(b *testNode) {
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, mx, "zoe@a.example")))
		queues := b.prober.ReadyQueues()
		require.Len(t, queues, 1)
		l := queues[0]
		require.Equal(t, "quarantined", l.State)
		require.Equal(t, "stay away with your <address>", l.Reply)
		require.Equal(t, mx[0], l.Host)
		require.Contains(t, l.Rule, "away")
		require.Equal(t, 4*time.Hour, l.Until.Sub(l.Since).Round(time.Hour))
		require.False(t, b.prober.EndQuarantine(l.Egress, "another"))
		require.True(t, b.prober.EndQuarantine(l.Egress, l.Route))
		require.False(t, b.prober.EndQuarantine(l.Egress, l.Route), "once")
		away = false
		require.Equal(t, "idle", b.prober.ReadyQueues()[0].State)
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(5*time.Second, mx, "zoe@a.example")))
		require.NotZero(t, b.prober.ReadyQueues()[0].Refusals.Used, "what was used stays used")
		b.stop()
		b.start(nil)
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(5*time.Second, mx, "ann@a.example")))
	})
}

func TestTracesFollowTheQuery(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, "ann@a.example", "zed@a.example", "yan@a.example")...)
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

// TestQuarantineEverywhereIsListed: a source that is quarantined everywhere is shown as all its routes, and let go as
// such.
func TestQuarantineEverywhereIsListed(t *testing.T) {
	all, err := source.New([]source.Identity{{EHLO: "e"}}, "")
	require.NoError(t, err)
	src := all.List[0]
	now := time.Now()
	for _, r := range []string{"a", "b", "c"} {
		src.AddBlocklistReport(r, now.Add(time.Hour), source.DelistingInterval, now)
	}
	shown := appendSource(nil, src, now)
	require.Len(t, shown, 1)
	require.Empty(t, shown[0].Route)
	require.True(t, src.EndQuarantine(now))
	require.Empty(t, appendSource(nil, src, now))
	require.False(t, src.AddBlocklistReport("a", now.Add(time.Hour), source.DelistingInterval, now), "votes begin anew")
}

// TestEndingASourceQuarantineEndsBlocklistOnes: queues that are quarantined for blocklists alone go on with the source
// that an operator releases; what a receiver said for itself holds.
func TestEndingASourceQuarantineEndsBlocklistOnes(t *testing.T) {
	listed, hosts := "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org",
		map[string]*fakeServer{}
	names := []string{"mx.own.example", "mx.a.example", "mx.b.example", "mx.c.example"}
	for _, name := range names {
		hosts[name] = &fakeServer{banner: listed}
	}
	hosts[names[0]] = &fakeServer{mailReply: "550 5.7.1 You are not welcome here, your IP address has a poor reputation"}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		for _, name := range names {
			require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, []string{name}, "zoe@"+name[3:])),
				name)
		}
		queues := b.prober.ReadyQueues()
		require.Len(t, queues, 5, "the source as all its routes, and four queues")
		require.True(t, b.prober.EndQuarantine(queues[0].Egress, ""))
		rest := 0
		for _, l := range b.prober.ReadyQueues() {
			require.NotEmpty(t, l.Route, "the source is quarantined no more")
			if l.State == "quarantined" {
				require.Equal(t, names[0], l.Route)
				rest++
			}
		}
		require.Equal(t, 1, rest)
		require.False(t, b.prober.EndQuarantine(queues[0].Egress, ""), "once")
	})
}
