package datafolder

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// openFolder makes a data folder that others can read, with files of an earlier version.
func openFolder(t *testing.T) string {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "jobs", "one"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jobs", "one", "input"), []byte("ann@example.com"), 0o644))
	require.NoError(t, os.Symlink("jobs", filepath.Join(dir, "link")))
	return dir
}

// requireClosed requires that only the owner can read, write or list anything.
func requireClosed(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if e.Type()&fs.ModeSymlink == 0 {
			require.Zero(t, info.Mode().Perm()&0o077, "%s has %v", path, info.Mode())
		}
		return nil
	}))
}

func TestDataFolderIsClosedToOthers(t *testing.T) {
	dir := openFolder(t)
	require.NoError(t, RestrictOwn(dir))
	requireClosed(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o666))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777))
	requireClosed(t, dir)

	made := filepath.Join(t.TempDir(), "made", "here")
	require.NoError(t, RestrictOwn(made))
	requireClosed(t, made)
}
