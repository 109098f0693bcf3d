package api

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/fleet"
	"probity/store"
)

// sights is one node with a quarantine.
type sights struct{ resting, gone bool }

func (s *sights) Lanes(context.Context) ([]fleet.LaneReport, []string) {
	l := fleet.LaneReport{Node: "n1"}
	l.Route, l.Egress, l.State = "mx.shop.test", "192.0.2.1", "quarantined"
	return []fleet.LaneReport{l}, []string{"n2"}
}

func (s *sights) Traces(_ context.Context, q fleet.TraceQuery) ([]fleet.TraceReport, []string, error) {
	if q.Email == "x" {
		return nil, nil, errors.New("email is no address")
	}
	r := fleet.TraceReport{Node: "n1"}
	r.Status, r.Attempts = q.Status, q.Limit
	return []fleet.TraceReport{r}, nil, nil
}

func (s *sights) Release(_ context.Context, node, _, route string) (bool, error) {
	if s.gone {
		return false, errors.New("it does not answer")
	}
	if node != "n1" {
		return false, fleet.ErrNoSuchNode
	}
	was := s.resting && route == "mx.shop.test"
	s.resting = s.resting && !was
	return was, nil
}

func TestOperatorSeesLanesAndReleasesThem(t *testing.T) {
	w := newWorld(t, nil)
	b := w.signIn("root2@probity.test", store.Admin)
	require.Equal(t, 404, b.get("/v1/dash/admin/lanes").status, "where nobody can look")
	seen := &sights{resting: true}
	w.server.rooms.Operator.Sights = seen
	got := b.get("/v1/dash/admin/lanes").json(t)
	require.Equal(t, "quarantined", got["lanes"].([]any)[0].(map[string]any)["state"])
	require.Equal(t, []any{"n2"}, got["mute"])
	traces := b.do("POST", "/v1/dash/admin/traces", `{"status":"UNKNOWN","limit":7}`)
	require.Equal(t, 200, traces.status, "%s", traces.body)
	require.EqualValues(t, 7, traces.json(t)["traces"].([]any)[0].(map[string]any)["attempts"])
	require.Equal(t, 422, b.do("POST", "/v1/dash/admin/traces", `{"email":"x"}`).status)
	release := func(node, route string) int {
		return b.do("POST", "/v1/dash/admin/lanes/release", `{"node":"`+node+`","egress":"192.0.2.1","route":"`+route+`"}`).status
	}
	require.Equal(t, 404, release("n2", "mx.shop.test"))
	require.Equal(t, 404, release("n1", "mx.other.test"))
	require.Equal(t, 204, release("n1", "mx.shop.test"))
	require.Equal(t, 404, release("n1", "mx.shop.test"))
	acts, err := w.store.Acts("", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"release", "192.0.2.1", "n1 mx.shop.test"}, []string{acts[0].Act, acts[0].Target, acts[0].Note})
	seen.gone = true
	require.Equal(t, 503, release("n1", "mx.shop.test"))
}
