package prober

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store/cache"
)

// TestCacheFilterIsBuiltAtStart: not an hour later.
func TestCacheFilterIsBuiltAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestNode(t, "", nil)
		require.NoError(t, b.cache.Close())
		config := cache.Config{FS: vfs.NewMem(), Dir: "cache", FilterBytes: 1 << 16}
		before, err := cache.Open(config)
		require.NoError(t, err)
		v := engine.VerdictFor(engine.ReasonMailboxNotFound, "x", 0, time.Now())
		require.NoError(t, before.Put([]cache.Entry{{Key: cache.Key{1}, Verdict: &v}}))
		require.NoError(t, before.Close())

		b.cache, err = cache.Open(config)
		require.NoError(t, err)
		require.False(t, b.cache.FilterReady())
		b.start(nil)
		time.Sleep(time.Second)
		require.True(t, b.cache.FilterReady())
		b.stop()
		require.NoError(t, b.cache.Close())
	})
}
