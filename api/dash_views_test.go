package api

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/api/activity"
	"probity/coordinator/fleet"
	"probity/store"
)

// fakeViews is one node with a quarantine.
type fakeViews struct{ quarantined, unreachable bool }

func (s *fakeViews) ReadyQueues(context.Context) ([]fleet.ReadyQueueReport, []string) {
	l := fleet.ReadyQueueReport{Node: "n1"}
	l.Route, l.Egress, l.State = "mx.shop.test", "192.0.2.1", "quarantined"
	return []fleet.ReadyQueueReport{l}, []string{"n2"}
}

func (s *fakeViews) Traces(_ context.Context, q fleet.TraceQuery) ([]fleet.TraceReport, []string, error) {
	if q.Email == "x" {
		return nil, nil, errors.New("email is not an address")
	}
	r := fleet.TraceReport{Node: "n1"}
	r.Status, r.Attempts = q.Status, q.Limit
	return []fleet.TraceReport{r}, nil, nil
}

func (s *fakeViews) EndQuarantine(_ context.Context, node, _, route string) (bool, error) {
	if s.unreachable {
		return false, errors.New("it does not answer")
	}
	if node != "n1" {
		return false, fleet.ErrNoSuchNode
	}
	was := s.quarantined && route == "mx.shop.test"
	s.quarantined = s.quarantined && !was
	return was, nil
}

func TestOperatorSeesQueuesAndEndsQuarantine(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("root2@probity.test", store.Admin)
	require.Equal(t, 404, b.get("/v1/dash/admin/ready-queues").status, "where no node can be looked into")
	seen := &fakeViews{quarantined: true}
	w.server.deps.Operator.Views = seen
	got := b.get("/v1/dash/admin/ready-queues").json(t)
	require.Equal(t, "quarantined", got["ready_queues"].([]any)[0].(map[string]any)["state"])
	require.Equal(t, []any{"n2"}, got["unresponsive"])
	traces := b.do("POST", "/v1/dash/admin/traces", `{"status":"UNKNOWN","limit":7}`)
	require.Equal(t, 200, traces.status, "%s", traces.body)
	require.EqualValues(t, 7, traces.json(t)["traces"].([]any)[0].(map[string]any)["attempts"])
	require.Equal(t, 422, b.do("POST", "/v1/dash/admin/traces", `{"email":"x"}`).status)
	release := func(node, route string) int {
		return b.do("POST", "/v1/dash/admin/quarantines/end",
			`{"node":"`+node+`","egress":"192.0.2.1","route":"`+route+`"}`).status
	}
	require.Equal(t, 404, release("n2", "mx.shop.test"))
	require.Equal(t, 404, release("n1", "mx.other.test"))
	require.Equal(t, 204, release("n1", "mx.shop.test"))
	require.Equal(t, 404, release("n1", "mx.shop.test"))
	events, err := w.store.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"release", "192.0.2.1", "n1 mx.shop.test"},
		[]string{events[0].Action, events[0].Target, events[0].Note})
	seen.unreachable = true
	require.Equal(t, 503, release("n1", "mx.shop.test"))
}

func TestOperatorSeesTheLastDay(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("root2@probity.test", store.Admin)
	require.Equal(t, 404, b.get("/v1/dash/admin/activity").status, "where no figures are kept")
	w.server.deps.Operator.Activity = activity.New(activity.Config{})
	got := b.get("/v1/dash/admin/activity?minutes=60").json(t)
	require.EqualValues(t, 3600, got["step_seconds"])
	require.Equal(t, []any{}, got["points"])
	require.Nil(t, got["oldest_job"])
	require.Equal(t, 422, b.get("/v1/dash/admin/activity?minutes=61").status)
	require.Equal(t, 403, w.signIn("cleo@probity.test", store.Customer).get("/v1/dash/admin/activity").status)
}

func TestClusterHasItsQuarantines(t *testing.T) {
	w := newTestServer(t, nil)
	require.NotContains(t, w.get("/v1/admin/cluster", w.adminKey).json(t), "quarantines")
	w.server.deps.Operator.Views = &fakeViews{quarantined: true}
	quarantines := w.get("/v1/admin/cluster", w.adminKey).json(t)["quarantines"].([]any)
	require.Len(t, quarantines, 1)
	q := quarantines[0].(map[string]any)
	require.Equal(t, []any{"n1", "192.0.2.1", "mx.shop.test"}, []any{q["node"], q["source"], q["receiver"]})
}
