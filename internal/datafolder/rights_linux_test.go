package datafolder

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFolderThatCannotBeMadeIsAnError: rights of the folder above are no warning about the data folder.
func TestFolderThatCannotBeMadeIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	runtime.LockOSThread() // for good: the thread ends with the test
	require.NoError(t, syscall.Setfsuid(65534))
	defer func() { _ = syscall.Setfsuid(syscall.Getuid()) }()
	require.ErrorIs(t, Restrict(dir, slog.New(slog.DiscardHandler)), fs.ErrPermission)
	require.ErrorIs(t, RestrictOwn(dir), fs.ErrPermission)
}
