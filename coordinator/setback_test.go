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

	"probity/store"
)

// sickFS fails whatever is written below a folder while it is sick, and what is removed there.
type sickFS struct {
	vfs.FS
	below atomic.Pointer[string] // nil while all is well
	slow  time.Duration          // before it fails
	err   error
}

func (f *sickFS) sick(path string) error {
	if below := f.below.Load(); below != nil && strings.Contains(path, *below) {
		time.Sleep(f.slow)
		return f.err
	}
	return nil
}

func (f *sickFS) fall(below string) { f.below.Store(&below) }
func (f *sickFS) heal()             { f.below.Store(nil) }

func (f *sickFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.sick(path); err != nil {
		return nil, err
	}
	return f.FS.Create(path, c)
}

func (f *sickFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := f.sick(path); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(path, c, o...)
}

func (f *sickFS) RemoveAll(path string) error {
	if err := f.sick(path); err != nil {
		return err
	}
	return f.FS.RemoveAll(path)
}

// inSickWorld runs f in a bubble, with a coordinator whose disk may fall sick.
func inSickWorld(t *testing.T, cause error, f func(t *testing.T, w *world, disk *sickFS)) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		disk := &sickFS{FS: mem, err: cause}
		w := openWorld(t, mem, func(_ *world, c *Config) { c.FS = disk })
		f(t, w, disk)
		require.NoError(t, w.close(t), "the service went on")
	})
}

func stateOf(t *testing.T, w *world, id string) Snapshot {
	s, err := w.c.Snapshot(id)
	require.NoError(t, err)
	return s
}

// TestOneBadJobHarmsNoOther: a job whose files cannot be written is tried again, says so, and fails after an hour; others end.
func TestOneBadJobHarmsNoOther(t *testing.T) {
	inSickWorld(t, syscall.EIO, func(t *testing.T, w *world, disk *sickFS) {
		bad := w.accept(t, list(100, 1))
		disk.fall(bad.ID)
		w.run()
		good := w.accept(t, list(100, 2))
		require.Equal(t, store.JobCompleted, w.finish(t, good.ID).State)
		time.Sleep(50 * time.Minute)
		s := stateOf(t, w, bad.ID)
		require.Equal(t, store.JobRunning, s.State)
		require.Contains(t, s.Error, "tried again")
		require.Greater(t, w.c.meters.setbacks[setbackError].Load(), int64(40))
		time.Sleep(15 * time.Minute)
		s = stateOf(t, w, bad.ID)
		require.Equal(t, store.JobFailed, s.State)
		require.Equal(t, saysGivenUp, s.Error)
		require.Equal(t, int64(1), w.c.meters.setbacks[setbackFailed].Load())
	})
}

// TestAJobOfASlowDiskFailsAfterAnHour: that each step takes minutes to fail is no progress.
func TestAJobOfASlowDiskFailsAfterAnHour(t *testing.T) {
	inSickWorld(t, syscall.EIO, func(t *testing.T, w *world, disk *sickFS) {
		bad := w.accept(t, list(100, 1))
		disk.slow = 2 * lastTry
		disk.fall(bad.ID)
		w.run()
		time.Sleep(50 * time.Minute)
		require.Equal(t, store.JobRunning, stateOf(t, w, bad.ID).State)
		require.Less(t, w.c.meters.setbacks[setbackError].Load(), int64(30), "the waits grow")
		time.Sleep(20 * time.Minute)
		s := stateOf(t, w, bad.ID)
		require.Equal(t, store.JobFailed, s.State)
		require.Equal(t, saysGivenUp, s.Error)
		disk.heal()
	})
}

// TestSetbacksAreCountedFromTheLastProgress: rows that were committed and a new state are progress, and time is not.
func TestSetbacksAreCountedFromTheLastProgress(t *testing.T) {
	for name, test := range map[string]struct {
		each time.Duration // between failures
		at   func(n int) reached
		over int // the failure that ends the job; 0: none of the first hundred
	}{
		"nothing moves":         {lastTry, func(int) reached { return reached{store.JobRunning, 5} }, 61},
		"steps last":            {10 * time.Minute, func(int) reached { return reached{store.JobRunning, 5} }, 7},
		"hours apart":           {5 * time.Hour, func(int) reached { return reached{store.JobRunning, 5} }, fewestTries},
		"rows are committed":    {10 * time.Minute, func(n int) reached { return reached{store.JobRunning, int64(n)} }, 0},
		"fewer rows are no new": {10 * time.Minute, func(n int) reached { return reached{store.JobRunning, int64(-n)} }, 7},
		"another state at last": {10 * time.Minute, func(n int) reached {
			if n < 5 {
				return reached{store.JobRunning, 5}
			}
			return reached{store.JobFinalizing, 5}
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			var s setbacks
			now, over := time.Now(), 0
			for n := 1; n <= 100 && over == 0; n++ {
				if s.add(now, test.at(n)); s.over(now) {
					over = n
				}
				now = now.Add(test.each)
			}
			require.Equal(t, test.over, over)
		})
	}
}

// TestAJobOutlivesAPassingFault: what failed for a while is done in the end, and the trouble is forgotten.
func TestAJobOutlivesAPassingFault(t *testing.T) {
	inSickWorld(t, syscall.EIO, func(t *testing.T, w *world, disk *sickFS) {
		j := w.accept(t, list(100, 1))
		disk.fall(j.ID)
		w.run()
		time.Sleep(30 * time.Minute)
		disk.heal()
		time.Sleep(2 * lastTry)
		s := stateOf(t, w, j.ID)
		require.Equal(t, store.JobCompleted, s.State)
		require.Empty(t, s.Error)
	})
}

// TestAFailedRemovalIsTriedAgain: the files of an expired job that could not be removed are removed an hour later.
func TestAFailedRemovalIsTriedAgain(t *testing.T) {
	inSickWorld(t, syscall.EIO, func(t *testing.T, w *world, disk *sickFS) {
		w.run()
		j := w.finish(t, w.accept(t, list(100, 1)).ID)
		disk.fall(j.ID)
		time.Sleep(DefaultRetained + houseEvery + time.Second)
		require.Equal(t, store.JobExpired, stateOf(t, w, j.ID).State)
		left, err := w.fs.List(w.c.dir(j.ID))
		require.NoError(t, err)
		require.NotEmpty(t, left)
		require.NotZero(t, w.c.meters.house.Load())
		disk.heal()
		time.Sleep(houseEvery + time.Second)
		_, err = w.fs.Stat(w.c.dir(j.ID))
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

// TestAFullDiskKeepsAJobsState: a job that is cancelled, or runs, on a full disk is that as long as there is no room, and goes on
// within a minute once there is.
func TestAFullDiskKeepsAJobsState(t *testing.T) {
	inSickWorld(t, syscall.ENOSPC, func(t *testing.T, w *world, disk *sickFS) {
		w.prober.how = unsteady(time.Second)
		w.run()
		cancelled, running := w.accept(t, list(100, 1)), w.accept(t, list(100, 2))
		disk.fall(jobsFolder)
		_, err := w.c.Cancel(cancelled.ID)
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		s := stateOf(t, w, cancelled.ID)
		require.Equal(t, store.JobCancelling, s.State)
		require.Equal(t, saysFull, s.Error)
		s = stateOf(t, w, running.ID)
		require.Contains(t, []store.JobState{store.JobRunning, store.JobFinalizing}, s.State)
		require.NotZero(t, w.c.meters.setbacks[setbackFull].Load())
		_, err = w.c.Resume(cancelled.ID)
		require.ErrorIs(t, err, ErrState)
		disk.heal()
		time.Sleep(lastTry + time.Second)
		require.Equal(t, store.JobCancelled, stateOf(t, w, cancelled.ID).State)
		require.Equal(t, store.JobCompleted, stateOf(t, w, running.ID).State)
	})
}

// TestAListRefusedForCreditsThatSinglesHoldLeavesNothing: the refusal comes after the parts of the commit.
func TestAListRefusedForCreditsThatSinglesHoldLeavesNothing(t *testing.T) {
	w := openWorld(t, vfs.NewMem())
	now := time.Now()
	admin, _, err := w.store.FirstAdmin(t.Context(), "admin@x.example", "a long enough password", 3, now)
	require.NoError(t, err)
	require.NoError(t, w.store.ReserveSingle(admin.ID, "r", 2, now))
	_, err = w.c.Accept(t.Context(), Upload{Body: strings.NewReader("email\na@x.example\nb@x.example\n"), Options: Options{Account: admin.ID,
		Parts: func(j *store.Job) []store.Part { return []store.Part{store.ReserveJob(admin.ID, j.ID, j.Unique, now)} }}})
	var short *store.ErrInsufficientCredits
	require.ErrorAs(t, err, &short)
	left, err := w.fs.List("data/jobs")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, w.close(t))
}
