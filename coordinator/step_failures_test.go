package coordinator

import (
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/store"
)

// brokenFS fails writes and removals below a folder while it is broken.
type brokenFS struct {
	vfs.FS
	brokenPath atomic.Pointer[string] // nil while the disk works
	slow       time.Duration          // before it fails
	err        error
}

func (f *brokenFS) check(path string) error {
	if brokenPath := f.brokenPath.Load(); brokenPath != nil && strings.Contains(path, *brokenPath) {
		time.Sleep(f.slow)
		return f.err
	}
	return nil
}

func (f *brokenFS) breakPath(brokenPath string) { f.brokenPath.Store(&brokenPath) }
func (f *brokenFS) repair()                     { f.brokenPath.Store(nil) }

func (f *brokenFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check(path); err != nil {
		return nil, err
	}
	return f.FS.Create(path, c)
}

func (f *brokenFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := f.check(path); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(path, c, o...)
}

func (f *brokenFS) RemoveAll(path string) error {
	if err := f.check(path); err != nil {
		return err
	}
	return f.FS.RemoveAll(path)
}

// runWithBrokenDisk runs f in a synctest bubble, with a coordinator whose disk can be broken.
func runWithBrokenDisk(t *testing.T, cause error, f func(t *testing.T, w *testEnv, disk *brokenFS)) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		disk := &brokenFS{FS: mem, err: cause}
		w := newTestEnv(t, mem, func(_ *testEnv, c *Config) { c.FS = disk })
		f(t, w, disk)
		require.NoError(t, w.close(t), "the service went on")
	})
}

func stateOf(t *testing.T, w *testEnv, id string) Snapshot {
	s, err := w.c.Snapshot(id)
	require.NoError(t, err)
	return s
}

// TestFailingJobHarmsNoOther: a job whose files cannot be written is retried, says so, and fails after an hour; others
// end.
func TestFailingJobHarmsNoOther(t *testing.T) {
	runWithBrokenDisk(t, syscall.EIO, func(t *testing.T, w *testEnv, disk *brokenFS) {
		bad := w.accept(t, testCSV(100, 1))
		disk.breakPath(bad.ID)
		w.run()
		good := w.accept(t, testCSV(100, 2))
		require.Equal(t, store.JobCompleted, w.finish(t, good.ID).State)
		time.Sleep(50 * time.Minute)
		s := stateOf(t, w, bad.ID)
		require.Equal(t, store.JobRunning, s.State)
		require.Contains(t, s.Error, "tried again")
		require.Greater(t, w.c.metrics.stepFailures[failureRetried].Load(), int64(40))
		time.Sleep(15 * time.Minute)
		s = stateOf(t, w, bad.ID)
		require.Equal(t, store.JobFailed, s.State)
		require.Equal(t, msgGivenUp, s.Error)
		require.Equal(t, int64(1), w.c.metrics.stepFailures[failureFinal].Load())
	})
}

// TestJobOnASlowDiskFailsAfterAnHour: a step that takes minutes to fail is no progress.
func TestJobOnASlowDiskFailsAfterAnHour(t *testing.T) {
	runWithBrokenDisk(t, syscall.EIO, func(t *testing.T, w *testEnv, disk *brokenFS) {
		bad := w.accept(t, testCSV(100, 1))
		disk.slow = 2 * maxRetryWait
		disk.breakPath(bad.ID)
		w.run()
		time.Sleep(50 * time.Minute)
		require.Equal(t, store.JobRunning, stateOf(t, w, bad.ID).State)
		require.Less(t, w.c.metrics.stepFailures[failureRetried].Load(), int64(30), "the waits grow")
		time.Sleep(20 * time.Minute)
		s := stateOf(t, w, bad.ID)
		require.Equal(t, store.JobFailed, s.State)
		require.Equal(t, msgGivenUp, s.Error)
		disk.repair()
	})
}

// TestFailuresCountFromTheLastProgress: committed rows and a new state are progress; time is not.
func TestFailuresCountFromTheLastProgress(t *testing.T) {
	for name, test := range map[string]struct {
		each time.Duration // between failures
		at   func(n int) durableProgress
		over int // the failure that ends the job; 0: none of the first hundred
	}{
		"nothing moves": {maxRetryWait, func(int) durableProgress {
			return durableProgress{store.JobRunning,
				5}
		}, 61},
		"steps last": {10 * time.Minute,
			func(int) durableProgress { return durableProgress{store.JobRunning, 5} }, 7},
		"hours apart": {5 * time.Hour, func(int) durableProgress {
			return durableProgress{store.JobRunning,
				5}
		}, minFailures},
		"rows are committed": {10 * time.Minute,
			func(n int) durableProgress { return durableProgress{store.JobRunning, int64(n)} }, 0},
		"fewer rows are no new": {10 * time.Minute,
			func(n int) durableProgress { return durableProgress{store.JobRunning, int64(-n)} }, 7},
		"another state at last": {10 * time.Minute, func(n int) durableProgress {
			if n < 5 {
				return durableProgress{store.JobRunning, 5}
			}
			return durableProgress{store.JobFinalizing, 5}
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			var s stepFailures
			now, over := time.Now(), 0
			for n := 1; n <= 100 && over == 0; n++ {
				s.add(now, test.at(n))
				if s.isFinal(now) {
					over = n
				}
				now = now.Add(test.each)
			}
			require.Equal(t, test.over, over)
		})
	}
}

// TestJobSurvivesATemporaryFault: a job whose steps failed for a while ends, without a problem in its record.
func TestJobSurvivesATemporaryFault(t *testing.T) {
	runWithBrokenDisk(t, syscall.EIO, func(t *testing.T, w *testEnv, disk *brokenFS) {
		j := w.accept(t, testCSV(100, 1))
		disk.breakPath(j.ID)
		w.run()
		time.Sleep(30 * time.Minute)
		disk.repair()
		time.Sleep(2 * maxRetryWait)
		s := stateOf(t, w, j.ID)
		require.Equal(t, store.JobCompleted, s.State)
		require.Empty(t, s.Error)
	})
}

// TestFailedRemovalIsRetried: the files of an expired job that could not be removed are removed an hour later.
func TestFailedRemovalIsRetried(t *testing.T) {
	runWithBrokenDisk(t, syscall.EIO, func(t *testing.T, w *testEnv, disk *brokenFS) {
		w.run()
		j := w.finish(t, w.accept(t, testCSV(100, 1)).ID)
		disk.breakPath(j.ID)
		time.Sleep(DefaultRetention + time.Hour + time.Second)
		require.Equal(t, store.JobExpired, stateOf(t, w, j.ID).State)
		left, err := w.fs.List(w.c.files.Path(j.ID))
		require.NoError(t, err)
		require.NotEmpty(t, left)
		require.NotZero(t, w.c.metrics.retentionErrors.Load())
		disk.repair()
		time.Sleep(time.Hour + time.Second)
		_, err = w.fs.Stat(w.c.files.Path(j.ID))
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

// TestFullDiskKeepsTheJobState: on a full disk a cancelling or running job keeps its state, and it continues within a
// minute once there is space.
func TestFullDiskKeepsTheJobState(t *testing.T) {
	runWithBrokenDisk(t, syscall.ENOSPC, func(t *testing.T, w *testEnv, disk *brokenFS) {
		w.prober.outcome = deferSome(time.Second)
		w.run()
		cancelled, running := w.accept(t, testCSV(100, 1)), w.accept(t, testCSV(100, 2))
		disk.breakPath(jobdir.FolderName)
		_, err := w.c.Cancel(cancelled.ID)
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		s := stateOf(t, w, cancelled.ID)
		require.Equal(t, store.JobCancelling, s.State)
		require.Equal(t, msgDiskFull, s.Error)
		s = stateOf(t, w, running.ID)
		require.Contains(t, []store.JobState{store.JobRunning, store.JobFinalizing}, s.State)
		require.NotZero(t, w.c.metrics.stepFailures[failureDiskFull].Load())
		_, err = w.c.Resume(cancelled.ID)
		require.ErrorIs(t, err, ErrState)
		disk.repair()
		time.Sleep(maxRetryWait + time.Second)
		require.Equal(t, store.JobCancelled, stateOf(t, w, cancelled.ID).State)
		require.Equal(t, store.JobCompleted, stateOf(t, w, running.ID).State)
	})
}

// TestRefusedUploadLeavesNoFiles: a part of the commit refuses the job after the upload was written.
func TestRefusedUploadLeavesNoFiles(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	now := time.Now()
	admin, _, err := w.store.FirstAdmin(t.Context(), "admin@x.example", "a long enough password", 3, now)
	require.NoError(t, err)
	require.NoError(t, w.store.ReserveSingle(admin.ID, "r", 2))
	_, err = w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader("email\na@x.example\nb@x.example\n"),
		Options: ingest.Options{Account: admin.ID,
			Parts: func(j *store.Job) []store.Part {
				return []store.Part{store.ReserveJob(admin.ID, j.ID, j.Unique,
					now)}
			}}})
	var short *store.ErrInsufficientCredits
	require.ErrorAs(t, err, &short)
	left, err := w.fs.List("data/jobs")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, w.close(t))
}
