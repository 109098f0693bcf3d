package coordinator

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestHowManyJobsRunIsTold runs some beside each other: each one that begins and ends is told of, and none is left at the end.
func TestHowManyJobsRunIsTold(t *testing.T) {
	const jobs = 5
	var told []int // one at a time
	w := openWorld(t, vfs.NewMem(), func(_ *world, cfg *Config) {
		cfg.OnRunning = func(n int) { told = append(told, n) }
	})
	w.run()
	var ids []string
	for range jobs {
		ids = append(ids, w.accept(t, list(300, 7)).ID)
	}
	for _, id := range ids {
		w.finish(t, id)
	}
	require.NoError(t, w.close(t))
	require.Len(t, told, 2*jobs)
	require.Positive(t, told[0])
	require.Zero(t, told[len(told)-1])
}
