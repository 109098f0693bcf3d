package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// TestRecentIsBounded: in a second, and in all.
func TestRecentIsBounded(t *testing.T) {
	r, start := New(nil), time.Unix(1_800_000_000, 0)
	route := &engine.Route{Provider: &engine.Provider{}}
	put := func(s engine.Status, at time.Time) {
		r.Record(Probe{Evidence: &engine.Evidence{Route: route}, Verdict: &engine.Verdict{Status: s}}, "e", at)
	}
	for i := range 3 * anyPerSecond {
		put(engine.Valid, start.Add(time.Duration(i)))
	}
	find := func() []wire.Trace { return r.Find(wire.Query{}, nil, &engine.Table{Unknown: &engine.Provider{}}) }
	require.Len(t, find(), anyPerSecond, "of one second")
	for i := range maxUnknowns + maxRecent {
		put(engine.Unknown, start.Add(time.Duration(i)*10*time.Millisecond))
	}
	later := start.Add(time.Hour)
	for i := range maxRecent + 10 {
		put(engine.Valid, later.Add(time.Duration(i)*time.Second))
	}
	all := find()
	require.Len(t, all, maxRecent+maxUnknowns)
	for i := range all[1:] {
		require.False(t, all[i+1].At.After(all[i].At), "the newest first")
	}
}
