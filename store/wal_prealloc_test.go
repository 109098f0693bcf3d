package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestPreallocatedLogIsRead: after a kill, logs that end in zeros, or in the older content of a reused file, are read whole.
func TestPreallocatedLogIsRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(vfs.Default, filepath.Join(dir, "state"))
	require.NoError(t, err)
	defer s.Close()
	name := func(i int) []byte { return key(tableSetting, fmt.Sprintf("%08d", i)) }
	for i := range 60 {
		require.NoError(t, s.Commit("", func(b *pebble.Batch) error { return b.Set(name(i), make([]byte, (i+1)*997), nil) }))
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
	require.Zero(t, len(b)%preallocStep)
	require.Zero(t, b[len(b)-1])
}

// TestWriteLongerThanPreallocation: preallocation never overwrites written data.
func TestWriteLongerThanPreallocation(t *testing.T) {
	fs, path := preallocFS{vfs.Default}, filepath.Join(t.TempDir(), "1.log")
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	long := bytes.Repeat([]byte{1}, 2*preallocStep+1)
	for _, n := range []int{1, len(long), 3, preallocStep, preallocStep} {
		_, err := f.Write(append([]byte(nil), long[:n]...))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	wrote := 1 + len(long) + 3 + 2*preallocStep
	require.Equal(t, wrote, bytes.Count(b, []byte{1}))
	require.Equal(t, wrote, bytes.IndexByte(b, 0))
}
