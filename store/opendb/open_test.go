package opendb

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

type discardLogger struct{}

func (discardLogger) Infof(string, ...any)  {}
func (discardLogger) Errorf(string, ...any) {}
func (discardLogger) Fatalf(string, ...any) { panic("cannot go on") }

// TestOpenOnAFullDiskFails opens a database whose log has to be written into a table, on a disk that takes no more tables.
func TestOpenOnAFullDiskFails(t *testing.T) {
	disk := vfs.NewMem()
	db, err := Open("db", &pebble.Options{FS: disk, Logger: discardLogger{}})
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("k"), []byte("v"), pebble.Sync))
	require.NoError(t, db.Close())
	var full atomic.Bool
	full.Store(true)
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) {
			return syscall.ENOSPC
		}
		return nil
	}))
	ended := make(chan error, 1)
	go func() {
		_, err := Open("db", &pebble.Options{FS: fs, Logger: discardLogger{}})
		ended <- err
	}()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, ErrDisk)
		require.ErrorContains(t, err, "make room")
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
	full.Store(false) // so that Pebble's goroutines end
}
