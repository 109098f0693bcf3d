package admin

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each command that opens a data folder restricts it to its owner.
func TestCommandsCloseTheirDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	job := filepath.Join(dir, "jobs", "one")
	require.NoError(t, os.MkdirAll(job, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(job, "input"), []byte("ann@example.com"), 0o644))
	for _, open := range []string{dir, filepath.Dir(job), job} {
		require.NoError(t, os.Chmod(open, 0o755))
	}
	require.NoError(t, os.Chmod(filepath.Join(job, "input"), 0o644))
	s, err := openOrMakeLocal(dir)
	require.NoError(t, err)
	require.NoError(t, s.close())
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s has %v", path, info.Mode())
		return nil
	}))
}
