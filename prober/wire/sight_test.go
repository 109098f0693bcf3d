package wire

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// shopWindow is a Sight with one lane in quarantine.
type shopWindow struct{ resting bool }

func (w *shopWindow) Lanes() []Lane {
	state := "idle"
	if w.resting {
		state = "quarantined"
	}
	return []Lane{{Route: "mx.example.com", Egress: "192.0.2.1", State: state, Refusals: Use{Used: 3, Limit: 20}, Reply: "go \xffaway"}}
}

func (w *shopWindow) Traces(q Query) ([]Trace, error) {
	if q.Email == "nobody" {
		return nil, errors.New("email is no address")
	}
	return []Trace{{Status: q.Status, Provider: q.Provider, Attempts: q.Limit}}, nil
}

func (w *shopWindow) Release(egress, route string) bool {
	was := w.resting && egress == "192.0.2.1" && route == "mx.example.com"
	w.resting = w.resting && !was
	return was
}

// TestPeopleSeeANode: what a node lets people see and do reaches them through its coordinator, and through no other.
func TestPeopleSeeANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{server: func(c *ServerConfig) { c.Sight = &shopWindow{resting: true} }}).settle()
		lanes, err := l.client.Lanes(t.Context())
		require.NoError(t, err)
		require.Equal(t, "quarantined", lanes[0].State)
		require.Equal(t, Use{Used: 3, Limit: 20}, lanes[0].Refusals)
		was, err := l.client.Release(t.Context(), "192.0.2.1", "mx.example.com")
		require.NoError(t, err)
		require.True(t, was)
		was, err = l.client.Release(t.Context(), "192.0.2.1", "mx.example.com")
		require.NoError(t, err)
		require.False(t, was)
		traces, err := l.client.Traces(t.Context(), Query{Status: "UNKNOWN", Provider: "google", Limit: 7})
		require.NoError(t, err)
		require.Equal(t, []Trace{{Status: "UNKNOWN", Provider: "google", Attempts: 7}}, traces)
		_, err = l.client.Traces(t.Context(), Query{Email: "nobody"})
		require.ErrorContains(t, err, "email is no address")

		rival := l.join(Coordinator{"c2", 1}, func(State) {}, nil)
		l.settle()
		_, err = rival.Lanes(t.Context())
		require.ErrorIs(t, err, ErrGone, "it has no stream")
	})
}

func TestANodeMayShowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		_, err := l.client.Lanes(t.Context())
		require.ErrorContains(t, err, "shows nothing")
		_, err = l.client.Release(t.Context(), "", "")
		require.ErrorContains(t, err, "releases nothing")
	})
}
