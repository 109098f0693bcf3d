package coordinator

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// TestAFailedSyncIsEverybodys: it may have been of what another has added and is about to sync, and a disk tells of it once.
func TestAFailedSyncIsEverybodys(t *testing.T) {
	var fails atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && fails.Swap(false) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	f, err := openChunkFile(disk, "chunks")
	require.NoError(t, err)
	require.NoError(t, f.sync())
	_, _, err = f.add([]byte("one's"))
	require.NoError(t, err)
	_, _, err = f.add([]byte("another's"))
	require.NoError(t, err)
	fails.Store(true)
	require.ErrorIs(t, f.sync(), errorfs.ErrInjected, "the one's")
	require.ErrorIs(t, f.sync(), errorfs.ErrInjected, "the other's")
	_, _, err = f.add([]byte("a third's"))
	require.ErrorIs(t, err, errorfs.ErrInjected)
	require.NoError(t, f.f.Close())
	f, err = openChunkFile(disk, "chunks")
	require.NoError(t, err)
	_, _, err = f.add([]byte("after it was opened again"))
	require.NoError(t, err)
	require.NoError(t, f.sync())
	require.NoError(t, f.f.Close())
}
