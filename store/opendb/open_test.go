package opendb

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type discardLogger struct{}

func (discardLogger) Infof(string, ...any)  {}
func (discardLogger) Errorf(string, ...any) {}
func (discardLogger) Fatalf(string, ...any) { panic("cannot go on") }

// TestOpenOnAFullDiskFails opens a database whose log has to be written into a table, on a disk that takes no more
// tables.
func TestOpenOnAFullDiskFails(t *testing.T) {
	disk := vfs.NewMem()
	db, err := Open("db", &pebble.Options{FS: disk, Logger: discardLogger{}})
	require.NoError(t, err)
	assert.NoError(t, db.Set([]byte("k"), []byte("v"), pebble.Sync))
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

// TestCompactionsKeepUp writes from several goroutines until there are many tables. They are merged until none is left
// that needs it, although nothing is written any more.
func TestCompactionsKeepUp(t *testing.T) {
	o := &pebble.Options{FS: vfs.NewMem(), Logger: discardLogger{}, MemTableSize: 64 << 10, L0CompactionThreshold: 4}
	db, err := Open("db", o)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			value := make([]byte, 1000)
			for i := range 1000 {
				_, _ = rand.Read(value)
				key := fmt.Sprintf("%d-%d", i*7919%1000, w)
				assert.NoError(t, db.Set([]byte(key), value, pebble.NoSync))
			}
		})
	}
	writers.Wait()
	require.NoError(t, db.Flush())
	require.Eventually(t, func() bool {
		m := db.Metrics()
		return m.Compact.NumInProgress == 0 && m.Levels[0].Sublevels < int32(o.L0CompactionThreshold)
	}, 20*time.Second, 10*time.Millisecond)
	require.Greater(t, db.Metrics().Compact.Count, int64(10))
	require.NoError(t, db.Close())
}

// TestFailedOpenStartsNoCompaction opens a database that has tables to merge, and a log to be written into one more, on
// a disk whose step after that fails. No compaction has begun by then; once the database can be opened, they run.
func TestFailedOpenStartsNoCompaction(t *testing.T) { synctest.Test(t, failOpen) }

func failOpen(t *testing.T) {
	disk := vfs.NewMem()
	db, err := pebble.Open("db", &pebble.Options{FS: disk, Logger: discardLogger{}, DisableAutomaticCompactions: true})
	require.NoError(t, err)
	for i := range 12 {
		require.NoError(t, db.Set(fmt.Append(nil, "k", i%3), []byte("v"), pebble.Sync))
		require.NoError(t, db.Flush())
	}
	require.NoError(t, db.Set([]byte("k"), []byte("v"), pebble.Sync))
	require.NoError(t, db.Close())
	broken := errors.New("broken")
	for _, step := range []string{".dbtmp", ".log"} {
		var begun atomic.Int32
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, step) {
				synctest.Wait() // a compaction that may begin has begun
				return broken
			}
			return nil
		}))
		listener := &pebble.EventListener{CompactionBegin: func(pebble.CompactionInfo) { begun.Add(1) }}
		_, err := Open("db", &pebble.Options{FS: fs, Logger: discardLogger{}, EventListener: listener,
			L0CompactionThreshold: 2})
		require.ErrorIs(t, err, broken, step)
		require.Zero(t, begun.Load(), step)
	}
	merged := make(chan struct{}, 100)
	db, err = Open("db", &pebble.Options{FS: disk, Logger: discardLogger{}, L0CompactionThreshold: 2,
		EventListener: &pebble.EventListener{CompactionEnd: func(pebble.CompactionInfo) { merged <- struct{}{} }}})
	require.NoError(t, err)
	select {
	case <-merged:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is merged")
	}
	require.NoError(t, db.Close())
}
