package coordinator

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store"
)

func TestCollectTellsEveryStateAndStatus(t *testing.T) {
	fs := vfs.NewMem()
	s, err := store.Open(fs, "state")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.AcceptJob(&store.Job{ID: "0123456789abcdef0123456789abcdef", Account: "a", State: store.JobCompleted, Counts: map[string]int64{"VALID": 1}}))
	c := New(Config{Store: s, FS: fs, Dir: "data", Table: engine.DefaultTable()})
	c.meters.singles[engine.Risky].Add(3)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP probity_singles_total Single verifications that were answered, by status.
# TYPE probity_singles_total counter
probity_singles_total{status="INVALID"} 0
probity_singles_total{status="RISKY"} 3
probity_singles_total{status="UNKNOWN"} 0
probity_singles_total{status="VALID"} 0
`), "probity_singles_total"))
	require.Equal(t, len(jobStates), testutil.CollectAndCount(c, "probity_jobs"))
}
