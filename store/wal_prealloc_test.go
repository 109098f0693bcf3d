package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestPreallocatedLogIsRead: after a kill, logs that end in zeros are read whole.
func TestPreallocatedLogIsRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(vfs.Default, filepath.Join(dir, "state"))
	require.NoError(t, err)
	defer s.Close()
	name := func(i int) []byte { return key(tableSetting, fmt.Sprintf("%08d", i)) }
	for i := range 60 {
		require.NoError(t, s.Commit("", func(b *pebble.Batch) error {
			return b.Set(name(i), make([]byte, (i+1)*997),
				nil)
		}))
		if i%20 != 19 {
			continue
		}
		left := filepath.Join(dir, fmt.Sprint("left", i))
		require.NoError(t, os.CopyFS(left, os.DirFS(filepath.Join(dir, "state"))))
		requirePreallocated(t, left)
		after, err := Open(vfs.Default, left)
		require.NoError(t, err)
		for n := range i + 1 {
			v, err := get(after.db, name(n))
			require.NoError(t, err)
			require.Len(t, v, (n+1)*997)
		}
		require.NoError(t, after.Close())
	}
}

// requirePreallocated asserts that the last log ends in preallocated room.
func requirePreallocated(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	b, err := os.ReadFile(logs[len(logs)-1])
	require.NoError(t, err)
	require.Zero(t, len(b)%(512<<10))
	require.Zero(t, b[len(b)-1])
}
