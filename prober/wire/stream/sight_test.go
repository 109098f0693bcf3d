package stream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// fakeViews are Views with one quarantined queue.
type fakeViews struct{ quarantined bool }

func (w *fakeViews) ReadyQueues() []wire.ReadyQueue {
	state := "idle"
	if w.quarantined {
		state = "quarantined"
	}
	return []wire.ReadyQueue{{Route: "mx.example.com", Egress: "192.0.2.1", State: state,
		Refusals: wire.Usage{Used: 3, Limit: 20}, Reply: "go \xffaway"}}
}

func (w *fakeViews) Traces(q wire.Query) ([]wire.Trace, error) {
	if q.Email == "nobody" {
		return nil, errors.New("email is not an address")
	}
	return []wire.Trace{{Status: q.Status, Provider: q.Provider, Attempts: q.Limit}}, nil
}

func (w *fakeViews) EndQuarantine(egress, route string) bool {
	was := w.quarantined && egress == "192.0.2.1" && route == "mx.example.com"
	w.quarantined = w.quarantined && !was
	return was
}

// TestNodeViews: what a node lets people see and do reaches them through its coordinator, and through no other.
func TestNodeViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{server: func(c *ServerConfig) {
			c.Views = &fakeViews{quarantined: true}
		}}).waitIdle()
		queues, err := l.client.ReadyQueues(t.Context())
		require.NoError(t, err)
		require.Equal(t, "quarantined", queues[0].State)
		require.Equal(t, wire.Usage{Used: 3, Limit: 20}, queues[0].Refusals)
		was, err := l.client.EndQuarantine(t.Context(), "192.0.2.1", "mx.example.com")
		require.NoError(t, err)
		require.True(t, was)
		was, err = l.client.EndQuarantine(t.Context(), "192.0.2.1", "mx.example.com")
		require.NoError(t, err)
		require.False(t, was)
		traces, err := l.client.Traces(t.Context(), wire.Query{Status: "UNKNOWN", Provider: "google", Limit: 7})
		require.NoError(t, err)
		require.Equal(t, []wire.Trace{{Status: "UNKNOWN", Provider: "google", Attempts: 7}}, traces)
		_, err = l.client.Traces(t.Context(), wire.Query{Email: "nobody"})
		require.ErrorContains(t, err, "email is not an address")

		second := l.newClient(wire.Coordinator{ID: "c2", Term: 1}, func(State) {}, nil)
		l.waitIdle()
		_, err = second.ReadyQueues(t.Context())
		require.ErrorIs(t, err, wire.ErrGone, "it has no stream")
	})
}

func TestNodeWithoutViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		_, err := l.client.ReadyQueues(t.Context())
		require.ErrorContains(t, err, "has no views")
		_, err = l.client.EndQuarantine(t.Context(), "", "")
		require.ErrorContains(t, err, "cannot end quarantines")
	})
}
