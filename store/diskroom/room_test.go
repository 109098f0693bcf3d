package diskroom

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// smallDisk is a disk in memory with so much room for bytes that are written.
type smallDisk struct {
	vfs.FS
	left  atomic.Int64
	wrong atomic.Pointer[error] // what a write without room fails with
}

func newSmallDisk(t *testing.T, room int64) *smallDisk {
	d := &smallDisk{FS: vfs.NewMem()}
	d.left.Store(room)
	d.failWith(syscall.ENOSPC)
	require.NoError(t, d.FS.MkdirAll("data", 0o700))
	return d
}

func (d *smallDisk) failWith(err error) { d.wrong.Store(&err) }

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return &smallFile{f, d}, err
}

func (d *smallDisk) Remove(name string) error {
	info, err := d.FS.Stat(name)
	if err == nil {
		d.left.Add(info.Size())
	}
	return errors.Join(err, d.FS.Remove(name))
}

type smallFile struct {
	vfs.File
	disk *smallDisk
}

func (f *smallFile) Write(p []byte) (int, error) {
	fits := int(min(int64(len(p)), max(0, f.disk.left.Load())))
	n, err := f.File.Write(p[:fits])
	f.disk.left.Add(-int64(n))
	if err == nil && fits < len(p) {
		err = *f.disk.wrong.Load()
	}
	return n, err
}

func (f *smallFile) Sync() error {
	if f.disk.left.Load() < 0 {
		return *f.disk.wrong.Load()
	}
	return f.File.Sync()
}

func create(t *testing.T, fs vfs.FS, name string) vfs.File {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	return f
}

// TestTheStateGoesOnWithTheBallastAndThenWaits: the first write without room has that of the ballast. Later ones wait
// until there is room, and no byte is lost or doubled. Files are refused meanwhile, and accepted when the ballast was
// made again.
func TestTheStateGoesOnWithTheBallastAndThenWaits(t *testing.T) {
	for _, wrong := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS,
		&os.PathError{Op: "write", Err: syscall.ENOSPC}} {
		synctest.Test(t, func(t *testing.T) {
			disk := newSmallDisk(t, 2*minBallast)
			disk.failWith(wrong)
			r := New(disk, "data", nil)
			r.MakeBallast()
			state, cache, files := r.State(), r.Cache(), r.Files()
			Opened(cache)
			log, verdicts, rows := create(t, state, "data/log"), create(t, cache, "data/cache"),
				create(t, files, "data/rows")
			block := make([]byte, minBallast+1000)
			block[0], block[len(block)-1] = 1, 2

			n, err := log.Write(block)
			require.NoError(t, err)
			require.Equal(t, len(block), n)
			require.NoError(t, Full(state), "nothing waits")
			require.ErrorIs(t, Full(files), syscall.ENOSPC)
			require.ErrorIs(t, Full(cache), syscall.ENOSPC)
			_, err = disk.Stat("data/" + BallastName)
			require.ErrorIs(t, err, os.ErrNotExist)
			_, err = rows.Write(block[:1])
			require.ErrorIs(t, err, syscall.ENOSPC)

			var done atomic.Int64
			for _, f := range []vfs.File{log, verdicts} {
				go func() {
					n, err := f.Write(block)
					require.NoError(t, err)
					done.Add(int64(n))
				}()
			}
			time.Sleep(time.Hour)
			require.Zero(t, done.Load())
			require.ErrorIs(t, Full(state), syscall.ENOSPC, "a write waits")

			ctx := t.Context()
			go r.Run(ctx)
			disk.left.Store(1 << 20)
			time.Sleep(2 * checkEvery)
			require.Equal(t, int64(2*len(block)), done.Load())
			for _, fs := range []vfs.FS{state, cache, files} {
				require.NoError(t, Full(fs))
			}
			_, err = disk.Stat("data/" + BallastName)
			require.NoError(t, err)
			_, err = rows.Write(block[:1])
			require.NoError(t, err)
			info, err := log.Stat()
			require.NoError(t, err)
			require.Equal(t, int64(2*len(block)), info.Size())
		})
	}
}

// TestAFailedSyncIsNeverRepeated: after it the bytes may be lost, even if a second one succeeds.
func TestAFailedSyncIsNeverRepeated(t *testing.T) {
	disk := newSmallDisk(t, 0)
	r := New(disk, "data", nil)
	disk.left.Store(-1)
	stuck := make(chan error)
	now := make(chan struct{})
	close(now)
	go func() {
		stuck <- r.UnlessStuck(now, 0, func() error { return create(t, r.State(), "data/log").Sync() })
	}()
	require.ErrorIs(t, <-stuck, syscall.ENOSPC)
	disk.left.Store(1 << 20)
	require.ErrorIs(t, Full(r.State()), syscall.ENOSPC)
	require.ErrorIs(t, create(t, vfs.FS(disk), "data/x").Sync(), nil)
	disk.left.Store(-1)
	require.ErrorIs(t, (&file{File: create(t, vfs.FS(disk), "data/y"), view: r.Files()}).Sync(), syscall.ENOSPC,
		"the caller makes the file again")
}

// TestUnlessStuckReturnsOnlyWhatNeverEnds: work that ends is waited for, however full the disk is.
func TestUnlessStuckReturnsOnlyWhatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newSmallDisk(t, 0)
		r := New(disk, "data", nil)
		done := make(chan struct{})
		go func() {
			time.Sleep(time.Minute)
			close(done)
		}()
		began, wrong := time.Now(), errors.New("its own")
		require.Equal(t, wrong, r.UnlessStuck(done, time.Second, func() error {
			time.Sleep(2 * time.Minute)
			return wrong
		}))
		require.Equal(t, 2*time.Minute, time.Since(began))
		require.NoError(t, r.UnlessStuck(done, time.Second, func() error {
			time.AfterFunc(900*time.Millisecond, func() { disk.left.Store(100) })
			_, err := create(t, r.State(), "data/log").Write(make([]byte, 100))
			return err
		}))
		err := r.UnlessStuck(done, time.Second, func() error {
			_, err := create(t, r.State(), "data/log").Write(make([]byte, 100))
			return err
		})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "the disk is full")
		disk.left.Store(100) // so that the goroutine ends
		time.Sleep(time.Minute)
	})
}
