package cache

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store/diskroom"
)

// TestAFullDiskCostsOnlyWhatIsNew: verdicts are dropped and budgets refused while the disk is full. What was cached is
// given, and everything is written again when there is room.
func TestAFullDiskCostsOnlyWhatIsNew(t *testing.T) { synctest.Test(t, fillUnderCache) }

func fillUnderCache(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	failing := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpRename, errorfs.OpReuseForWrite:
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	require.NoError(t, disk.MkdirAll("data", 0o700))
	room := diskroom.New(failing, "data", nil)
	room.MakeBallast()
	c, err := Open(Config{FS: room.Cache(), Dir: "data/cache", FilterBytes: 1 << 16})
	require.NoError(t, err)
	v := engine.VerdictFor(engine.ReasonNone, "x", 0, time.Now())
	put := func(i int) { require.NoError(t, c.Put([]Entry{{testKey(i), &v}})) }
	budget := []Budget{{Name: "big", State: []byte("1"), Until: time.Now().Add(24 * time.Hour)}}
	put(0)
	require.NoError(t, c.PutBudgets(budget))

	full.Store(true)
	waiting := make(chan error, 1)
	go func() {
		waiting <- c.PutBudgets([]Budget{{Name: "waiting", State: []byte("1"), Until: time.Now().Add(24 * time.Hour)}})
	}()
	time.Sleep(time.Minute)
	require.Empty(t, waiting)
	require.ErrorIs(t, c.PutBudgets(budget), syscall.ENOSPC)
	require.ErrorIs(t, c.Delete(testKey(0)), syscall.ENOSPC, "an erasure must know")
	put(1)
	_, ok := c.Get(testKey(0), time.Now())
	require.True(t, ok)
	_, ok = c.Get(testKey(1), time.Now())
	require.False(t, ok)
	state, ok, err := c.Budget("big")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "1", string(state))

	full.Store(false)
	go room.Run(t.Context())
	require.NoError(t, <-waiting)
	time.Sleep(time.Minute)
	put(1)
	_, ok = c.Get(testKey(1), time.Now())
	require.True(t, ok)
	require.NoError(t, c.PutBudgets(budget))
	require.NoError(t, c.Close())
}
