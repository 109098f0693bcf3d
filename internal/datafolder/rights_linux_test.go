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

// TestFolderOfAnotherUserIsNamed: the error is about the folder, before any store in it is opened.
func TestFolderOfAnotherUserIsNamed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o500))
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread, which has another user's rights, ends with its goroutine
		if os.Getuid() == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534)
		}
		refused <- Restrict(dir, slog.New(slog.DiscardHandler))
	}()
	var at *fs.PathError
	require.ErrorAs(t, <-refused, &at)
	require.ErrorIs(t, at, fs.ErrPermission)
	require.Equal(t, dir, at.Path)
}
