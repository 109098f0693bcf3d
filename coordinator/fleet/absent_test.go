package fleet

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/cluster"
)

// TestWaitingForAbsentNodesIsLogged: the log says once which nodes jobs wait for, that the wait is over, and which
// routes wait.
func TestWaitingForAbsentNodesIsLogged(t *testing.T) {
	var log bytes.Buffer
	f := &Fleet{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, members: membersOf("p1", "p2")}
	f.membership.Store(newMembership(&cluster.View{}, nil, nil, time.Time{}))
	reported := func(view *cluster.View, now time.Time) string {
		log.Reset()
		f.publish(view, now)
		return log.String()
	}
	missing := viewOf(false, "p1", "p2")
	missing.Nodes = []cluster.Node{{Name: "p1", State: cluster.Suspect, Since: testNow},
		{Name: "p2", State: cluster.Alive, Usable: true}}
	require.Contains(t, reported(missing, testNow),
		`msg="jobs wait for absent nodes" nodes=[p1] until=2026-03-01T12:01:10.000Z`)
	require.NotContains(t, reported(missing, testNow), "lists", "once")
	require.True(t, f.Awaited().After(testNow))
	there := viewOf(true, "p1", "p2")
	said := reported(there, testNow.Add(time.Second))
	require.Contains(t, said, "jobs no longer wait for absent nodes")
	require.NotContains(t, said, "rest")
	for _, m := range f.members {
		m.lastWork.Store(testNow.UnixNano())
	}
	require.Contains(t, reported(viewOf(true, "p2"), testNow.Add(2*time.Second)),
		`msg="routes with a new owner paused" until=2026-03-01T12:01:02.000Z`)
	require.NotContains(t, reported(viewOf(true, "p2"), testNow.Add(3*time.Second)), "rest")
}

// TestNodesThatOwnNothingAreNotWaitedFor: no job waits for an absent node without a share, and the log says nothing of
// it.
func TestNodesThatOwnNothingAreNotWaitedFor(t *testing.T) {
	var log bytes.Buffer
	f := &Fleet{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, members: membersOf("p1", "p2")}
	f.membership.Store(newMembership(&cluster.View{}, nil, nil, time.Time{}))
	view := viewOf(true, "p2")
	view.Nodes = []cluster.Node{{Name: "p1", State: cluster.Suspect, Since: testNow},
		{Name: "p2", State: cluster.Alive, Usable: true}}
	f.publish(view, testNow)
	require.NotContains(t, log.String(), "lists wait")
	require.Zero(t, f.Awaited())
}
