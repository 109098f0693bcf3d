package datafolder

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFolderThatCannotBeMadeIsAnError: rights of the folder above are no warning about the data folder.
func TestFolderThatCannotBeMadeIsAnError(t *testing.T) {
	above := t.TempDir()
	require.NoError(t, os.Chmod(above, 0o555))
	dir := filepath.Join(above, "data")
	runtime.LockOSThread()                      // for good: the thread ends with the test
	require.NoError(t, syscall.Setfsuid(65534)) // rights do not bind root
	defer func() { _ = syscall.Setfsuid(syscall.Getuid()) }()
	require.ErrorIs(t, Restrict(dir, slog.New(slog.DiscardHandler)), fs.ErrPermission)
	require.ErrorIs(t, RestrictOwn(dir), fs.ErrPermission)
}
